// What the tests use of Node, instead of a package with all of its types.
declare module 'node:test' {
  export function test(name: string, body: () => void): void
}
declare module 'node:assert/strict' {
  export function equal<T>(actual: T, expected: T, message?: string): void
  export function deepEqual<T>(actual: T, expected: T, message?: string): void
}
