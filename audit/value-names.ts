import { current } from '../libraries/runtime/owner.js';

/* What a value of which nothing is known is taken for, by the name of the property that has it. */

/** What says of a thing that nothing can be done with it any more. */
export const IS_OVER: RegExp =
  /^(?:is)?(?:discontinued|deleted|removed|cancell?ed|closed|disabled|archived|expired|suspended|blocked|banned|revoked|rejected|withdrawn|frozen|inactive|unavailable|deactivated|paused|muted|unsubscribed|optedOut|bounced|soldOut|settled|paid|billed|invoiced|charged|refunded|shipped|sent|delivered|processed|handled|completed|done|finished)$/i;

/** How many records a statement has changed. */
export const IS_COUNT: RegExp =
  /^(?:rowCount|affectedRows|numAffectedRows|changedRows|modifiedCount|matchedCount|insertedCount)$/;

/** How much of something there is: what reads as a number where it is a part of a text. */
const IS_QUANTITY =
  /^(?:amount|count|total|cents|price|qty|quantity|points|micros|balance|version|stock|size|(?:\w+_)?(?:fence|epoch|revision|generation|seq))$|(?:Amount|Cents|Micros|Count|Total|Points|Price|Balance|Fence|Epoch|Revision|Seq)$/;

/** How much of something has been used, or how much of something there is that stands in the way. */
const USED =
  /^(?:uses|used|spent|taken|sold|booked|reserved|redeemed|attempts?|tries|retries|failures|offset|cursor|n|cnt|overlaps|conflicts)$/i;
/** The same as a part of a name: `lane_used_cm`, `seatsSold`. */
const OF_USED = /_(?:used|taken|sold|booked|reserved)(?:_|$)|[a-z](?:Used|Taken|Sold|Booked|Reserved)$/;

/** What a new bid has to exceed. */
const TO_EXCEED =
  /^(?:highest(?:_?(?:bid|offer))?|(?:current|leading|high|best|top|last)_?(?:bid|offer))(?:_?(?:cents|amount|price))?$/i;

/** Whether a property says how much has been used, or has to be exceeded, by its name. */
export function isUsed(name: string): boolean {
  return USED.test(name) || OF_USED.test(name) || TO_EXCEED.test(name);
}

/** What counts what stands in the way. */
export const COUNTS_THEM: RegExp = /(?:^|\.)count(?:Documents)?$/;

/** When something ends that can still be used. */
const IS_END =
  /^(?:expir\w*|(?:valid|available|active|open)_?(?:until|to)|(?:ends?|closes?)_?(?:at|on|date)|deadline|until)$/i;
const LATER_MS = 86_400_000;
/** How much there may be of something. */
const IS_LIMIT =
  /^(?:max(?:imum)?[A-Z_]\w*|limit|capacity|quota)$|_(?:total|limit|capacity)(?:_|$)|[a-z](?:Limit|Capacity)$/;
const NO_LIMIT = 1_000;

/** Whether a property reads as a number where it is a part of a text, by its name. */
export function isQuantity(name: string): boolean {
  return IS_QUANTITY.test(name) || isUsed(name) || IS_LIMIT.test(name);
}

/** What a property is as a number, by its name. */
export function countOf(name: string, number: number): number {
  if (isUsed(name)) return number === 1 ? 0 : number;
  if (IS_END.test(name)) return (current.owner?.wallMs() ?? 0) + LATER_MS;
  return IS_LIMIT.test(name) ? NO_LIMIT * number : number;
}
