/* Calls of functions of which nothing is known, by their names and by what they were told. */

/** What only looks, by its name. */
const LOOKS =
  /(?:^|\.)(?:get|find|head|receive|load|read|fetch|query|list|select|peek|has|is|count|lookup|search|construct|verify|parse|decode|unwrap|deserialize)[^. ]*(?: |$)|^(?: |$)/i;

/** What only notes something, by its name. */
const NOTES = /(?:^|\.)(?:debug|info|warn|warning|error|fatal|trace|verbose)(?: |$)/;

/** What measures, by the names of clients for metrics: `gauge('leader', 1)`, `metrics.increment()`, `counter('failed').inc()`. */
const MEASURES =
  /(?:^|\.)(?:gauges?|histograms?|metrics?|statsd|telemetry|prom(?:etheus)?)(?:[. ]|$)|(?:^|\.)counter(?:\.inc(?: |$)| \w+[_.:]\w)/i;

/** What answers a request, as one that was refused the key does, too, or says how far a job is. */
const RESPONDS =
  /(?:^|\.)(?:status|sendStatus|json|text|html|body|notFound|send|end|writeHead|header|set|setHeader|type|redirect|render|(?:update|report|set)?progress|heartbeat)(?: |$)/i;

/** Whether a call of this name, with what it was told, does more than look and respond. */
export const isWork = (it: string): boolean =>
  !LOOKS.test(it) && !NOTES.test(it) && !MEASURES.test(it) && !RESPONDS.test(it);

/** The name of what was called, without what that was told. */
export function nameOfCall(call: string): string {
  return call.split(' ', 1)[0] ?? '';
}

/** What a method was called on, by the name of the call. */
export function ownerOf(name: string): string {
  return name.slice(0, name.lastIndexOf('.') + 1);
}
