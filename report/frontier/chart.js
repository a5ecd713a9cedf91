/* The script of the page: cells, measured edge and computed curve, drawn by uPlot. It runs in a browser, as it is. */
/* global uPlot, document, matchMedia, getComputedStyle, devicePixelRatio, ResizeObserver */
(() => {
  const { x, y, cells, edges, curves } = JSON.parse(document.getElementById('frontier').textContent);
  const place = document.getElementById('chart');
  const isWide = x.values[0] > 0 && x.values.at(-1) / x.values[0] > 20;

  const write = (axis, value) => {
    if (axis.unit === 'ppm') return `${Number((value / 10_000).toFixed(4))} %`;
    if (axis.unit === 'count') return `${value}`;
    const ms = Number((value / 1000).toFixed(3));
    return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
  };

  /** Where one cell ends and the next begins. */
  const borders = (values, wide) => {
    const between = values.slice(1).map((value, i) => (wide ? Math.sqrt(value * values[i]) : (value + values[i]) / 2));
    const first = values[0];
    const last = values.at(-1);
    const low = between.length === 0 ? first - 1 : wide ? (first * first) / between[0] : 2 * first - between[0];
    const high = between.length === 0 ? first + 1 : wide ? (last * last) / between.at(-1) : 2 * last - between.at(-1);
    return [low, ...between, high];
  };
  const across = borders(x.values, isWide);
  const up = borders(y.values, false);

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const FILLS = { safe: '--good-fill', violated: '--bad-fill', unavailable: '--none-fill' };

  /** A verdict is a colour and a pattern: nothing, slopes, or dots. */
  const fill = (ctx, verdict) => {
    const size = 8 * devicePixelRatio;
    const tile = document.createElement('canvas');
    tile.width = size;
    tile.height = size;
    const pen = tile.getContext('2d');
    pen.fillStyle = colour(FILLS[verdict]);
    pen.fillRect(0, 0, size, size);
    pen.strokeStyle = colour('--soft');
    pen.fillStyle = colour('--soft');
    pen.lineWidth = devicePixelRatio;
    pen.beginPath();
    if (verdict === 'violated') {
      pen.moveTo(0, size);
      pen.lineTo(size, 0);
      pen.stroke();
    }
    if (verdict === 'unavailable') {
      pen.arc(size / 2, size / 2, 1.2 * devicePixelRatio, 0, 7);
      pen.fill();
    }
    return ctx.createPattern(tile, 'repeat');
  };

  const drawCells = (chart) => {
    const { ctx, bbox } = chart;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    const fills = Object.fromEntries(['safe', 'violated', 'unavailable'].map((it) => [it, fill(ctx, it)]));
    cells.forEach((column, i) => {
      const left = Math.round(chart.valToPos(across[i], 'x', true));
      const right = Math.round(chart.valToPos(across[i + 1], 'x', true));
      column.forEach((verdict, j) => {
        const bottom = Math.round(chart.valToPos(up[j], 'y', true));
        const top = Math.round(chart.valToPos(up[j + 1], 'y', true));
        ctx.fillStyle = fills[verdict];
        ctx.fillRect(left, top, right - left, bottom - top);
      });
    });
    ctx.restore();
  };

  const axis = (it, more) => ({
    label: it.title,
    stroke: () => colour('--ink'),
    grid: { show: false },
    ticks: { stroke: () => colour('--ink') },
    values: (_, splits) => splits.map((value) => (value === null || value < 0 ? '' : write(it, value))),
    ...more,
  });

  const line = (label, width, dash) => ({
    label,
    stroke: () => colour('--accent'),
    width,
    dash,
    spanGaps: true,
    value: (_, value) => (value === null || value === undefined ? '–' : write(y, value)),
  });

  /** 1, 2 and 5 of each power of ten. */
  const roundSplits = () => {
    const splits = [];
    for (let power = 1; power <= across.at(-1); power *= 10) {
      for (const digit of [1, 2, 5]) {
        if (digit * power >= across[0] && digit * power <= across.at(-1)) splits.push(digit * power);
      }
    }
    return splits;
  };

  let chart = null;
  const draw = () => {
    chart?.destroy();
    chart = new uPlot(
      {
        width: place.clientWidth,
        height: Math.max(280, Math.min(520, Math.round(place.clientWidth * 0.55))),
        scales: {
          x: { time: false, distr: isWide ? 3 : 1, range: [across[0], across.at(-1)] },
          y: { range: [up[0], up.at(-1)] },
        },
        axes: [
          axis(x, { size: 56, ...(isWide ? { splits: roundSplits, filter: (_, splits) => splits } : {}) }),
          axis(y, { size: 84 }),
        ],
        series: [
          { label: x.title, value: (_, value) => (value === null || value === undefined ? '–' : write(x, value)) },
          ...curves.map(() => line('theory', 2, [8, 5])),
          ...edges.map(() => ({
            ...line('measured', 0),
            points: { show: true, size: 7, fill: () => colour('--ink'), stroke: () => colour('--ink') },
          })),
        ],
        hooks: { drawClear: [drawCells] },
      },
      [x.values, ...curves, ...edges],
      place,
    );
  };
  draw();
  new ResizeObserver(() => {
    if (chart.width !== place.clientWidth) draw();
  }).observe(place);
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
})();
