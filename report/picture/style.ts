/** The looks of pictures. Their colours are those of the page that they are in, or of their own file: `lookCss`. */
export const PICTURE_CSS: string = `
.picture{font:11px var(--font);font-variant-numeric:tabular-nums}
.picture text{fill:var(--ink);stroke:none}.picture path{fill:none}.l,.h{fill:none}
.paper,.under{fill:var(--paper)}.stripe{stroke:var(--soft);stroke-width:2.4}.speck{fill:var(--soft)}.crease{stroke:var(--line);stroke-width:1.5}
.t0{--t:var(--t0)}.t1{--t:var(--t1)}.t2{--t:var(--t2)}.t3{--t:var(--t3)}.t4{--t:var(--t4)}.t5{--t:var(--t5)}
.picture .title{font-size:17px;font-weight:700;fill:var(--good)}.picture .title.t1{fill:var(--bad)}
.picture .text{font-size:12.5px}.picture .name{font-size:13px;font-weight:700}
.picture .sub,.picture .tick,.picture .legend,.picture .note,.picture .fault,.picture .fold.x{font-size:10px}
.picture .sub,.picture .tick,.picture .legend{fill:var(--soft)}.picture .fold.x{font-size:9px;fill:var(--soft)}
.l{stroke-width:1.2}.lane.l,.grid.l{stroke:var(--line);stroke-width:1}.tick.l{stroke:var(--soft)}
.key.b,.truth.b{fill:var(--t)}.key.x,.truth.x{fill:var(--on)}.truth.x{font-weight:700}
.belief.b{fill:var(--t);fill-opacity:.14;stroke:var(--t);stroke-width:2}.belief.x{fill:var(--t);font-weight:700}
.after.b{fill:none;stroke:var(--t);stroke-width:1.5;stroke-dasharray:4 3}.after.x{fill:var(--t)}
.thin.b{fill:none;stroke:var(--t,var(--soft));stroke-dasharray:2 3}.thin.x{fill:var(--t)}.thin.l{stroke:var(--bad);stroke-dasharray:3 3;stroke-width:1}
.ghost.b{fill:none;stroke:var(--t);stroke-dasharray:2 2}.ghost.l{stroke:var(--t,var(--soft));stroke-dasharray:2 2;stroke-width:1.5}
.expiry.l{stroke:var(--t,var(--ink));stroke-width:3}
.down.b{fill:url(#hatch);stroke:var(--soft)}.frozen.b{fill:url(#dots);stroke:var(--soft)}
.cut.b{fill:none;stroke:var(--soft);stroke-dasharray:6 3}.refusing.b{fill:none;stroke:var(--soft);stroke-dasharray:1 3;stroke-width:2}
.picture .fault.x,.picture .note.x,.picture .bad.x,.picture .good.x,.picture .name,.picture .after.x,.picture .thin.x{paint-order:stroke;stroke:var(--paper);stroke-width:3px;stroke-linejoin:round}
.picture .fault.x{font-weight:600}.fault.g{stroke:var(--ink);stroke-width:2}.picture .note.x{fill:var(--t,var(--ink))}
.picture .bad.x{fill:var(--bad);font-weight:700}
.request.l,.write.l{stroke:var(--t);stroke-opacity:.75}.request.h,.write.h{fill:var(--t)}.write.l{stroke-width:2}
.reply.l{stroke:var(--t);stroke-opacity:.38}.picture .reply.h{fill:var(--t);fill-opacity:.5}
.lost.l{stroke:var(--t);stroke-dasharray:4 3}.lost.g{stroke:var(--bad);stroke-width:2.4}
.picture .yes.g{fill:var(--t,var(--ink));stroke:var(--paper)}.picture .no.g{fill:var(--paper);stroke:var(--t,var(--ink));stroke-width:2}
.picture .write.g{fill:var(--t);stroke:var(--paper)}
.picture .request.h,.picture .write.h{fill:var(--t)}
.band{fill:var(--veil)}.rule.l{stroke:var(--bad);stroke-width:1.6}.fold.b{fill:url(#fold)}
.gone.l{stroke:var(--bad);stroke-width:3}.picture .good.x{fill:var(--good);font-weight:700}
.dim.l,.dim.h,.dim.g,.dim.b{opacity:.3}.picture .dim.x{fill:var(--soft);font-weight:400}.picture .key.dim.x,.picture .truth.dim.x{fill:var(--ink)}
.clock.l{stroke:var(--ink);stroke-width:1.4}.chance.l{stroke:var(--bad);stroke-width:2}
`.trim();
