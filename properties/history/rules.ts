/** What the checker takes for certain. Tests plant bugs by changing one. */
export interface Rules {
  /** Whether an interval contains its end: then two that only touch would overlap. */
  readonly closed: boolean;
  /** Whether intervals shrink by the error of the clocks that their ends were read from. */
  readonly shrinks: boolean;
  /** Whether the call of a release ends the hold, or only its answer. */
  readonly endsAt: 'call' | 'answer';
  /** Whether a hold begins when the acquisition returns, or when it was called. */
  readonly beginsAt: 'return' | 'call';
  /** Whether an acquisition that nobody knows the end of counts as held until its TTL is over. */
  readonly unknownHolds: boolean;
  /** Whether an interval is compared with the one among those before it that lasts longest, or only with the last. */
  readonly comparesWith: 'longest' | 'last';
  /** Whether a shorter extension that may have been carried out caps what is certainly held. */
  readonly capsShorter: boolean;
  /** Whether the death of a client ends what it holds. */
  readonly heedsCrashes: boolean;
  /** Whether a lock that is claimed with nothing left of its validity is a violation. */
  readonly nothingIsWrong: boolean;
  /** Whether fencing tokens are compared. */
  readonly comparesTokens: boolean;
  /** Whether a lock that goes on after another was held in between is a loss that nobody was told of. */
  readonly noticesLoss: boolean;
}

/** The rules under which what is found is proven. */
export const SOUND: Rules = Object.freeze<Rules>({
  closed: false,
  shrinks: true,
  endsAt: 'call',
  beginsAt: 'return',
  unknownHolds: false,
  comparesWith: 'longest',
  capsShorter: true,
  heedsCrashes: true,
  nothingIsWrong: true,
  comparesTokens: true,
  noticesLoss: true,
});
