import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import type { Address } from '../address.js';
import type { TourStep, TourStop } from '../tour.js';

/** The argument of 2016, stop by stop; each step runs. */
export function TourView(props: {
  readonly tour: readonly TourStop[];
  readonly address: Address;
  readonly onStop: (at: number) => void;
  readonly onStep: (step: TourStep) => void;
}): JSX.Element {
  const { tour, address, onStop, onStep } = props;
  const at = Math.min(address.stop, tour.length - 1);
  const stop = tour[at];
  const [first] = stop?.steps ?? [];
  useEffect(() => {
    if (first !== undefined && address.run === '' && !stop?.steps.some((it) => isAt(it, address))) onStep(first);
  }, [at]);
  if (stop === undefined) return <p>There is no tour in this page.</p>;
  return (
    <div class="controls">
      <p class="actions">
        <button type="button" disabled={at === 0} onClick={() => onStop(at - 1)}>
          ← Back
        </button>
        <span class="count">
          {at + 1} of {tour.length}
        </span>
        <button type="button" class="primary" disabled={at === tour.length - 1} onClick={() => onStop(at + 1)}>
          Next →
        </button>
      </p>
      <h2>{stop.title}</h2>
      {stop.texts.map((it) => (
        <p key={it}>{it}</p>
      ))}
      {stop.steps.length === 0 ? null : (
        <ol class="list steps">
          {stop.steps.map((step) => (
            <li key={titleOf(step)}>
              <button
                type="button"
                aria-current={isAt(step, address) ? 'true' : undefined}
                onClick={() => onStep(step)}
              >
                <b>{titleOf(step)}</b> {step.says}
              </button>
            </li>
          ))}
        </ol>
      )}
    </div>
  );
}

function titleOf({ scenario, with: settings, map }: TourStep): string {
  return map.length > 0 ? `map of ${map.join(' ')}` : [scenario, ...settings.map((it) => `with ${it}`)].join(' ');
}

function isAt(step: TourStep, { scenario, with: settings, map }: Address): boolean {
  return step.scenario === scenario && step.with.join() === settings.join() && step.map.join() === map.join();
}
