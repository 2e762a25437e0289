// Charts, by uPlot. Colours are the page's tokens and follow the system's scheme.
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { compact, units } from './format'

export interface Line {
  label: string
  token: string
  dash?: boolean
  fill?: boolean
  steps?: boolean
}

const times = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit', hour12: false })
const seconds = new Intl.DateTimeFormat('en-GB',
  { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false })
const days = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' })

/** A tick of the time axis, as fine as the ticks are apart. */
function clock(at: number, step: number): string {
  const date = new Date(at * 1000)
  return (step < 60 ? seconds : step < 86400 && date.getHours() + date.getMinutes() ? times : days)
    .format(date)
}

export function Chart({ x, lines, values, height = 220, label, legend = true }: {
  x: number[]; lines: Line[]; values: (number | null)[][]; height?: number; label: string
  legend?: boolean
}) {
  const box = useRef<HTMLDivElement>(null)
  useEffect(() => {
    const element = box.current!
    let plot: uPlot | undefined
    const draw = () => {
      plot?.destroy()
      const style = getComputedStyle(document.documentElement)
      const token = (name: string) => style.getPropertyValue(name).trim()
      const axis = { stroke: token('--quiet'), grid: { stroke: token('--line'), width: 1 },
        ticks: { stroke: token('--line'), width: 1 }, font: '11px system-ui, sans-serif' }
      plot = new uPlot({
        width: element.clientWidth || 300, height,
        cursor: { drag: { x: false, y: false } },
        legend: { show: legend, live: true },
        scales: { y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.05 : 1] } },
        axes: [
          { ...axis, space: 70, values: (_u, ticks, _i, _s, step) => ticks.map((v) => clock(v, step)) },
          { ...axis, size: 58, values: (_u, ticks) => ticks.map((v) => (v == null ? '' : compact(v))) },
        ],
        series: [
          { label: 'Time', value: (_u, v) => (v == null ? '–' : new Date(v * 1000).toLocaleString('en-GB')) },
          ...lines.map((l) => ({
            label: l.label, stroke: token(l.token), width: 1.75, spanGaps: true,
            dash: l.dash ? [5, 4] : undefined, points: { show: x.length < 4, size: 6 },
            fill: l.fill ? `color-mix(in srgb, ${token(l.token)} 18%, transparent)` : undefined,
            paths: l.steps ? uPlot.paths.stepped!({ align: 1 }) : undefined,
            value: (_u: uPlot, v: number | null) => units(v == null ? null : Math.round(v)),
          })),
        ],
      }, [x, ...values] as uPlot.AlignedData, element)
    }
    draw()
    const scheme = matchMedia('(prefers-color-scheme: dark)')
    scheme.addEventListener('change', draw)
    const sizes = new ResizeObserver(() => {
      if (plot && element.clientWidth) plot.setSize({ width: element.clientWidth, height })
    })
    sizes.observe(element)
    return () => { scheme.removeEventListener('change', draw); sizes.disconnect(); plot?.destroy() }
  }, [x, lines, values, height, legend])
  return <figure class="chart" role="img" aria-label={label}><div ref={box} /></figure>
}
