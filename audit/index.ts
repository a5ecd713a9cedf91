export { AUDIT_REPLAY } from './audit.js';
export { auditInThread } from './in-thread.js';
export { FINDING_TITLES } from './names.js';
export { NoLockError } from './refusal.js';
export {
  type AuditPlan,
  type AuditResult,
  CLIENT_KINDS,
  type ClientKind,
  type Finding,
  type FoundBefore,
} from './result.js';
export { acquiredSaid, PROMISES, promiseSaid } from './telling.js';
