import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['__test__/**/*.test.ts'],
    // Bounds on hangs only; no test measures time.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    // The addon is loaded for real: one process per test file keeps its runtime apart from the others'.
    pool: 'forks',
    typecheck: {
      enabled: true,
      include: ['__test__/**/*.test-d.ts'],
      tsconfig: './tsconfig.json',
    },
  },
})
