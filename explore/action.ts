/** What leads from one state to the next. */
export const ActionKind = {
  /** A client calls `acquire`, `release` or `extend`, is frozen, or wakes up. */
  call: 0,
  timer: 1,
  request: 2,
  reply: 3,
  loseRequest: 4,
  loseReply: 5,
  crash: 6,
  tick: 7,
  /** A tick in which one clock goes on by none or by two. */
  drift: 8,
  /** A node's process dies, and comes back at once with its oldest dump. */
  rollBack: 9,
  /** A change of nodes begins. */
  change: 10,
} as const;
/** One of {@link ActionKind}. */
export type ActionKind = (typeof ActionKind)[keyof typeof ActionKind];

/** An action in one integer: its kind, a client (or process), a node, and a detail whose meaning the kind decides. */
export type Action = number & { readonly __action: true };

/** An action as one number; the inverse of {@link partsOf}. */
export function actionOf(kind: ActionKind, client: number, node: number, detail: number): Action {
  return (kind + 16 * (client + 16 * (node + 16 * detail))) as Action;
}

/** An action, taken apart. `detail` is which call, timer or message it is. */
interface ActionParts {
  readonly kind: ActionKind;
  readonly client: number;
  readonly node: number;
  readonly detail: number;
}

/** Takes an action apart. */
export function partsOf(action: Action): ActionParts {
  return {
    kind: (action & 15) as ActionKind,
    client: (action >> 4) & 15,
    node: (action >> 8) & 15,
    detail: action >> 12,
  };
}
