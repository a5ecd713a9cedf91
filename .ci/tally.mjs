// Prints what a vitest JSON report counts, as the one line `N passed, N failed, N skipped`. Fails if it counts no test
// or a failure. A test file that could not even be loaded counts as one failure.
import { readFileSync } from 'node:fs';

const report = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const broken = report.testResults.filter(
  (file) => file.status === 'failed' && file.assertionResults.length === 0,
).length;
const passed = report.numPassedTests;
const failed = report.numFailedTests + broken;
const skipped = report.numPendingTests + report.numTodoTests;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exit(passed === 0 || failed > 0 ? 1 : 0);
