// When units were spread again, and how many.
import { instant, span, units } from '../../format'
import { useCall } from '../../load'
import { Card, Shown } from '../../parts'
import { budgetPath } from '../../paths'
import type { Budget, Recycle } from '../../types'

export function Recycles({ b }: { b: Budget }) {
  const list = useCall<{ recycles: Recycle[] }>(budgetPath(b.name, b.tenant, '/recycles',
    { page_size: 10 }), 15_000)
  return (
    <Card title="Recycles" width="w6">
      <Shown of={list} empty={(l) => l.recycles.length === 0} none={<p>It was never recycled.</p>}>
        {({ recycles }) => (
          <div class="scroll">
            <table class="cards">
              <caption class="unseen">Recycles</caption>
              <thead><tr><th>Began</th><th>Cause</th><th class="num">Moved</th>
                <th class="num">Stranded before</th><th class="num">after</th><th>Took</th></tr></thead>
              <tbody>
                {recycles.map((r) => (
                  <tr key={r.run}>
                    <th scope="row">{instant(r.began_at)}</th>
                    <td data-label="Cause">{r.cause}</td>
                    <td class="num" data-label="Moved">{units(r.moved)}</td>
                    <td class="num" data-label="Stranded before">{units(r.stranded_before)}</td>
                    <td class="num" data-label="after">{units(r.stranded_after)}</td>
                    <td data-label="Took">{span(Date.parse(r.ended_at) - Date.parse(r.began_at))}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
      </Shown>
    </Card>
  )
}
