import { type Address, addressOf, fragmentOf } from './address.js';

/** Where the playground is on the web, with a slash at its end; empty as long as it is nowhere. */
export const PLAYGROUND_HOME: string = '';

/** What a document points to: a scenario of the catalogue, or a client profile that is searched with. */
export type Place = { readonly scenario: string } | { readonly profile: string };

/** The fragment of the address at which the playground shows it. */
export function fragmentAt(place: Place): string {
  const start = addressOf('');
  const shown: Partial<Address> =
    'scenario' in place
      ? { tab: 'scenarios', scenario: place.scenario }
      : { tab: 'search', search: { profile: place.profile } };
  return fragmentOf({ ...start, ...shown });
}

/** In Markdown: a link to that place, or as long as there is none, the command that opens it. */
export function playgroundLink(place: Place, home: string = PLAYGROUND_HOME): string {
  const [name = ''] = Object.values(place);
  return home === '' ? `\`lockstep playground --at ${name} --open\`` : `[${name}](${home}${fragmentAt(place)})`;
}
