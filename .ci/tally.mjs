// Prints what vitest JSON reports count together, as the one line `N passed, N failed, N skipped`. Fails if one of them is
// missing or counts no test, or for a failure. A test file that could not even be loaded counts as one failure.
import { readFileSync } from 'node:fs';

const total = { passed: 0, failed: 0, skipped: 0 };
let isWhole = process.argv.length > 2;
for (const path of process.argv.slice(2)) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'));
    const unloaded = report.testResults.filter(
      (file) => file.status === 'failed' && file.assertionResults.length === 0,
    );
    total.passed += report.numPassedTests;
    total.failed += report.numFailedTests + unloaded.length;
    total.skipped += report.numPendingTests + report.numTodoTests;
    isWhole &&= report.numPassedTests > 0;
  } catch (error) {
    console.error(`a suite left no report: ${error.message}`);
    total.failed++;
  }
}
const { passed, failed, skipped } = total;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exit(!isWhole || failed > 0 ? 1 : 0);
