import { applyChanges } from './change.js';
import { InputError, pointer, ScheduleError } from './input-error.js';
import { mitigate } from './mitigations.js';
import type { Scenario, Variant } from './scenario.js';
import type { Schedule } from './schedule.js';

/**
 * The schedule of one of a scenario's variants: first its mitigation, then its changes.
 *
 * @throws {@link ScheduleError} if the mitigation is unknown, or a change cannot be made.
 */
export function variantSchedule(scenario: Scenario, variant: Variant): Schedule {
  const base = placeOf(scenario, variant);
  return applyChanges(mitigated(scenario.schedule, variant, base), variant.change ?? [], pointer(base, 'change'));
}

function mitigated(schedule: Schedule, variant: Variant, base: string): Schedule {
  if (variant.with === undefined) return schedule;
  try {
    return mitigate(schedule, variant.with);
  } catch (error) {
    throw error instanceof InputError ? new ScheduleError(pointer(base, 'with'), error.message) : error;
  }
}

function placeOf(scenario: Scenario, variant: Variant): string {
  for (const list of ['flips', 'neighbours'] as const) {
    const index = scenario[list].indexOf(variant);
    if (index >= 0) return pointer('', list, index);
  }
  return '';
}
