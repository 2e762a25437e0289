import { defineConfig } from 'vite'

// Addresses are relative, so that the page works under any path. Nothing is inlined, because the
// page's content security policy allows scripts and styles from its own server only.
export default defineConfig({
  base: './',
  publicDir: false,
  build: {
    outDir: '../dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: false,
    target: 'es2022',
    license: { fileName: 'licenses.md' },
  },
})
