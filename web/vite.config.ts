import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { defineConfig, type Plugin } from 'vite';

const OUT = '../src/tgpu/dashboard';

/** Writes NAME.gz beside every file that a browser may ask for compressed. */
function gzipFiles(): Plugin {
  const compressible = /\.(js|css|html|svg|json|webmanifest)$/;
  return {
    name: 'gzip-files',
    apply: 'build',
    writeBundle({ dir }) {
      if (!dir) return;
      for (const name of readdirSync(dir, { recursive: true, encoding: 'utf8' })) {
        const path = join(dir, name);
        if (compressible.test(name) && statSync(path).isFile()) {
          writeFileSync(`${path}.gz`, gzipSync(readFileSync(path), { level: 9 }));
        }
      }
    },
  };
}

// `make dev` serves the sources here and passes everything else to the server of TGPU_DEV_SERVER.
const server = process.env['TGPU_DEV_SERVER'] ?? 'http://127.0.0.1:7480';

export default defineConfig({
  base: '/ui/',
  plugins: [gzipFiles()],
  server: {
    port: 7490,
    proxy: { '^/(?!ui(/|$))': { target: server, ws: true } },
  },
  build: {
    outDir: OUT,
    emptyOutDir: true,
    target: 'es2022',
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    // One file of styles is smaller than one for each page, and pages look the same in whatever order they are visited.
    cssCodeSplit: false,
    rolldownOptions: {
      output: {
        codeSplitting: {
          // What almost every page uses is one file: apart, these would be a dozen of some hundred bytes.
          groups: [{ name: 'shared', test: /web\/src\/(components\/(?!Bar|Chart|Table|Utilization)|[^/]+$|api|layout|state)|node_modules\/(@preact|preact)\// }],
        },
      },
    },
    sourcemap: false,
    reportCompressedSize: false,
    chunkSizeWarningLimit: 400,
  },
});
