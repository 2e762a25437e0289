// Fails if modules of src import each other in a circle, types included: such modules can be read,
// tested and moved only together.
import { readFileSync, readdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('src/', import.meta.url))
const files = new Set(readdirSync(root, { recursive: true }).filter((f) => /\.tsx?$/.test(f)))

/** The module that a relative import names: a file, or the index of a folder. */
function resolved(from, named) {
  const at = join(dirname(from), named)
  const file = [at, `${at}.ts`, `${at}.tsx`, `${at}/index.ts`, `${at}/index.tsx`].find((f) => files.has(f))
  if (!file) throw new Error(`${from} imports ${named}, which is no module of src`)
  return file
}

// The types of sdk are generated and import nothing.
const imports = new Map([...files].sort().map((file) => [file,
  [...readFileSync(join(root, file), 'utf8').matchAll(/\b(?:from|import)\s*\(?\s*['"](\.[^'"]*)['"]/g)]
    .map(([, named]) => named).filter((named) => !/\.(css|svg)$|\/sdk\//.test(named))
    .map((named) => resolved(file, named))]))

const done = new Set()
let cycles = 0
function visit(file, path) {
  const begins = path.indexOf(file)
  if (begins >= 0) {
    cycles++
    console.error(`import cycle: ${[...path.slice(begins), file].join(' -> ')}`)
    return
  }
  if (done.has(file)) return
  for (const next of imports.get(file)) visit(next, [...path, file])
  done.add(file)
}
for (const file of imports.keys()) visit(file, [])

const edges = [...imports.values()].reduce((n, list) => n + list.length, 0)
if (files.size < 20 || edges < files.size) throw new Error(`found ${files.size} modules, ${edges} imports`)
process.exitCode = cycles ? 1 : 0
