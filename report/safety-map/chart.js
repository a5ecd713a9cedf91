/* The script of a safety map: what is true at one place of it, chosen by two sliders or by pointing. It runs in a browser, as it is. */
/* global document */
(() => {
  const { x, y, cells, edges, at } = JSON.parse(document.getElementById('safety-map').textContent);
  const [across, up] = ['across', 'up'].map((id) => document.getElementById(id));
  const answer = document.getElementById('answer');
  const plot = document.querySelector('.plot');
  const cell = document.getElementById('cell');

  const show = () => {
    const [i, j] = [Number(across.value), Number(up.value)];
    across.nextElementSibling.textContent = x.words[i];
    up.nextElementSibling.textContent = y.words[j];
    across.setAttribute('aria-valuetext', x.words[i]);
    up.setAttribute('aria-valuetext', y.words[j]);
    answer.textContent = `With ${x.phrases[i]} and ${y.phrases[j]}: ${cells[i][j]}. ${edges[i]}`;
    const [left, right, low, high] = [x.borders[i], x.borders[i + 1], y.borders[j], y.borders[j + 1]];
    const rect = document.createElementNS('http://www.w3.org/2000/svg', 'rect');
    const place = { x: left, y: 100 - high, width: right - left, height: high - low };
    for (const [name, value] of Object.entries(place)) rect.setAttribute(name, `${value}%`);
    cell.replaceChildren(rect);
  };

  const placeOf = (borders, share) => {
    const place = borders.findIndex((border, i) => i > 0 && share <= border) - 1;
    return place < 0 ? borders.length - 2 : place;
  };
  const point = (event) => {
    const box = plot.getBoundingClientRect();
    across.value = placeOf(x.borders, (100 * (event.clientX - box.left)) / box.width);
    up.value = placeOf(y.borders, (100 * (box.bottom - event.clientY)) / box.height);
    show();
  };
  plot.addEventListener('pointermove', point);
  plot.addEventListener('click', point);
  across.addEventListener('input', show);
  up.addEventListener('input', show);
  [across.value, up.value] = at;
  document.querySelector('.readout').hidden = false;
  show();
})();
