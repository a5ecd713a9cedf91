import { judge } from '../../properties/judge.js';
import type { PropertyId, Schedule } from '../../scenarios/index.js';
import { type PieceKind, piecesOf } from './pieces.js';

/** What comes of a failing schedule without one piece of it. */
export interface Explained {
  readonly kind: PieceKind;
  readonly piece: string;
  /**
   * `passes`: the property holds, so the piece is needed. `fails`: it breaks all the same. `fails otherwise`: it breaks
   * together with an assumption that was kept, which is another failure.
   */
  readonly without: 'passes' | 'fails' | 'fails otherwise';
}

/**
 * Leaves out each piece of a schedule by itself and says what happens: why each is there.
 *
 * @param isDeploymentAsked - Nodes are not asked why they are there: the deployment was given. Default `false`.
 */
export function explain(schedule: Schedule, property: PropertyId, isDeploymentAsked = false): Explained[] {
  const kept = judge(schedule).assumptionsBroken;
  const pieces = piecesOf(schedule).filter(({ kind }) => !(isDeploymentAsked && kind === 'node'));
  return pieces.map(({ kind, name: piece, without }) => {
    const { violations, assumptionsBroken } = judge(without(), [property]);
    if (!violations.some((it) => it.property === property)) return { kind, piece, without: 'passes' };
    return { kind, piece, without: assumptionsBroken.every((it) => kept.includes(it)) ? 'fails' : 'fails otherwise' };
  });
}
