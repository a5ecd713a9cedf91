export { AUDIT_REPLAY, type AuditPlan, type AuditResult, type Finding } from './audit.js';
export { CLIENT_KINDS, type ClientKind } from './clients.js';
export { auditInThread } from './in-thread.js';
export { FINDING_TITLES } from './names.js';
export { NoLockError } from './refusal.js';
export type { FoundBefore } from './search.js';
export { PROMISES, promiseSaid } from './telling.js';
