/** Distributed locks through the Fencepost lock service. */

export { Client, type ClientOptions } from "./client.js";
export {
  BusyError,
  DeadlockError,
  DeniedError,
  FencepostError,
  InvalidError,
  LimitedError,
  LockLostError,
  lossOf,
  type LossReason,
  NotHeldError,
  StaleError,
  UnreachableError,
  UnsupportedError,
} from "./errors.js";
export type { ClaimOptions, LeadOptions, LockOptions, SemaphoreOptions } from "./kinds.js";
export { Lock } from "./lock.js";
export type { Election, Holder, Json, LockEvent, LockState, Permit, Waiter, YieldRequest } from "./models.js";
export type { ApiKey, ServiceOptions } from "./service.js";
