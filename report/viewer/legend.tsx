import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import { FIELD, legendOf } from '../picture/legend.js';
import type { Picture } from '../picture/marks.js';
import { svgOf } from '../picture/svg.js';

/** What the marks stand for that are in the picture. */
export function Legend({ picture }: { readonly picture: Picture }): JSX.Element {
  const items = useMemo(() => legendOf(picture.marks), [picture]);
  return (
    <details class="legend" open={!matchMedia('(max-width: 760px)').matches}>
      <summary>what the marks stand for</summary>
      <ul>
        {items.map(({ text, marks }) => (
          <li key={text}>
            <svg
              class="picture"
              {...FIELD}
              aria-hidden="true"
              dangerouslySetInnerHTML={{ __html: marks.map(svgOf).join('') }}
            />
            {text}
          </li>
        ))}
      </ul>
    </details>
  );
}
