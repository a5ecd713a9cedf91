// Prints what vitest JSON reports count together, as the one line `N passed, N failed, N skipped`, and before it each test that
// failed with its message: who reads the end of a log has to see them. Fails if a report is missing or counts no test, or for a
// failure. A test file that could not even be loaded counts as one failure. It says which files took longest, too.
import { readFileSync } from 'node:fs';

const total = { passed: 0, failed: 0, skipped: 0 };
const files = [];
let isWhole = process.argv.length > 2;
const told = (name, message) => console.log(`FAILED ${name}\n${message.split('\n').slice(0, 12).join('\n')}\n`);
for (const path of process.argv.slice(2)) {
  try {
    const report = JSON.parse(readFileSync(path, 'utf8'));
    for (const file of report.testResults) {
      files.push({ name: file.name, seconds: Math.round((file.endTime - file.startTime) / 1000) });
      const failed = file.assertionResults.filter((test) => test.status === 'failed');
      for (const test of failed) told(`${file.name} > ${test.fullName}`, test.failureMessages.join('\n'));
      if (file.status === 'failed' && file.assertionResults.length === 0) {
        total.failed++;
        told(file.name, file.message);
      }
    }
    total.passed += report.numPassedTests;
    total.failed += report.numFailedTests;
    total.skipped += report.numPendingTests + report.numTodoTests;
    isWhole &&= report.numPassedTests > 0;
  } catch (error) {
    console.error(`a suite left no report: ${error.message}`);
    total.failed++;
  }
}
files.sort((a, b) => b.seconds - a.seconds);
for (const { name, seconds } of files.slice(0, 20)) console.log(`${seconds} s  ${name}`);
const { passed, failed, skipped } = total;
console.log(`${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exit(!isWhole || failed > 0 ? 1 : 0);
