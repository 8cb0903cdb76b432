'use strict';
// Tables: a heading's button sorts by its column, numbers by value (the first number of a cell), else as text.
for (const table of document.querySelectorAll('table.sortable')) {
  table.tHead.addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    const th = button.parentElement;
    const up = th.getAttribute('aria-sort') === 'descending' || !th.hasAttribute('aria-sort');
    for (const other of th.parentElement.cells) other.removeAttribute('aria-sort');
    th.setAttribute('aria-sort', up ? 'ascending' : 'descending');
    const rows = [...table.tBodies[0].rows].map((row) => {
      const text = row.cells[th.cellIndex].textContent.trim();
      return {row, text, number: /^[-+]?[0-9.]/.test(text) ? parseFloat(text) : NaN};
    });
    const numeric = rows.every((r) => r.text === '' || !Number.isNaN(r.number));
    const compare = (a, b) => {
      if (a.text === '' || b.text === '') return (a.text === '') - (b.text === '');  // empty cells are last
      return (up ? 1 : -1) * (numeric ? a.number - b.number : a.text.localeCompare(b.text, 'en'));
    };
    for (const {row} of rows.sort(compare)) table.tBodies[0].append(row);
  });
}

// Charts: a legend's entry hides its series and shows it again.
for (const figure of document.querySelectorAll('figure')) {
  for (const button of figure.querySelectorAll('.legend button')) {
    button.addEventListener('click', () => {
      const off = button.classList.toggle('off');
      const n = button.dataset.series;
      for (const part of figure.querySelectorAll(`svg g[data-series="${n}"], svg rect.s${n}`)) {
        part.style.display = off ? 'none' : '';
      }
    });
  }
}

// Each chart as a file: the picture with the page's style in it, or its points as their titles say them.
function save(name, type, text) {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], {type}));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
function svgFile(svg) {
  const copy = svg.cloneNode(true);
  copy.setAttribute('xmlns', svg.namespaceURI);
  const style = document.createElementNS(svg.namespaceURI, 'style');
  style.textContent = [...document.querySelectorAll('style')].map((s) => s.textContent).join('\n') +
    '\nsvg { background: var(--back); }';
  copy.prepend(style);
  return new XMLSerializer().serializeToString(copy);
}
function csvFile(svg) {
  const cell = (text) => '"' + (/^[=+@-]/.test(text) ? "'" : '') + text.replace(/"/g, '""') + '"';
  return [...svg.querySelectorAll('title')].map((t) => t.textContent.split('\n').map(cell).join(',')).join('\r\n') + '\r\n';
}
for (const figure of document.querySelectorAll('figure')) {
  const svg = figure.querySelector('.wide > svg');
  if (!svg) continue;
  const name = figure.querySelector('h3').textContent.replace(/[^A-Za-z0-9]+/g, '_').slice(0, 60);
  const add = (text, action) => {
    const button = document.createElement('button');
    button.type = 'button', button.className = 'download', button.textContent = text;
    button.addEventListener('click', action);
    figure.append(button);
  };
  add('SVG', () => save(name + '.svg', 'image/svg+xml', svgFile(svg)));
  if (svg.querySelector('title')) add('CSV of the points', () => save(name + '.csv', 'text/csv', csvFile(svg)));
}

// A link into a closed <details> opens it.
function openTarget() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target && target.tagName === 'DETAILS') target.open = true;
}
window.addEventListener('hashchange', openTarget);
openTarget();

// Samples side by side.
(() => {
  const source = document.getElementById('sample-data');
  if (!source) return;
  const data = JSON.parse(source.textContent);
  const select = Object.fromEntries(['task', 'sample', 'left', 'right'].map((n) => [n, document.getElementById('s-' + n)]));
  const element = (tag, text, css) => {
    const made = document.createElement(tag);
    if (text !== undefined) made.textContent = text;
    if (css) made.className = css;
    return made;
  };
  const fill = (list, names) => list.replaceChildren(...names.map(([value, name]) => {
    const option = element('option', name);
    option.value = value;
    return option;
  }));

  // Of a generation: the text before the first difference, the differing token, and the rest.
  function split(answer, other) {
    let token = 0;
    while (token < answer.ids.length && token < other.ids.length && answer.ids[token] === other.ids[token]) ++token;
    if (token === answer.ids.length && token === other.ids.length && answer.text === other.text) return null;
    if (answer.tokens && other.tokens) {
      let end = token + 1;  // a character's first bytes have no text, the token that ends it has
      while (end < answer.tokens.length && !answer.tokens.slice(token, end).join('')) ++end;
      return {token, before: answer.tokens.slice(0, token).join(''), at: answer.tokens.slice(token, end).join(''),
              after: answer.tokens.slice(end).join('')};
    }
    const a = [...answer.text], b = [...other.text];
    let i = 0;
    while (i < a.length && i < b.length && a[i] === b[i]) ++i;
    const end = Math.min(a.length, i + 1);
    return {token, before: a.slice(0, i).join(''), at: a.slice(i, end).join(''), after: a.slice(end).join('')};
  }

  function column(name, answer, other) {
    const column = element('div');
    column.append(element('h3', name));
    if (!answer) {
      column.append(element('p', 'This compressor has no answer for this sample.', 'facts'));
      return column;
    }
    const facts = element('p', undefined, 'facts');
    if (answer.score !== undefined) {
      facts.append(element('span', `score ${+answer.score.toFixed(4)}`, answer.score > 0 ? 'good' : 'bad'),
                   answer.answer === undefined ? ', no answer found' : `, answer "${answer.answer}"`, '; ');
    }
    const share = (100 * answer.kv_bytes / answer.kv_bytes_fp16).toFixed(1);
    facts.append(`${answer.n_prompt_tokens} + ${answer.n_new_tokens} tokens, stopped by ${answer.stop}, `,
                 `KV ${answer.kv_bytes.toLocaleString('en')} bytes (${share} %); `);
    const link = element('a', 'cell');
    link.href = '#' + answer.cell;
    facts.append(link);
    const text = element('pre');
    const parts = other && split(answer, other);
    if (!parts) {
      text.append(answer.text);
    } else {
      const id = answer.ids[parts.token];
      const mark = element('mark', parts.at || '\u2205');
      mark.title = `token ${parts.token}` + (id === undefined ? ': the generation ended here' : `, id ${id}`);
      text.append(parts.before, mark, element('span', parts.after, 'after'));
      facts.append(`; first divergence: token ${parts.token}` + (id === undefined ? ' (ended)' : ` (id ${id})`));
    }
    if (other && !parts) facts.append('; both are equal');
    column.append(facts, text);
    return column;
  }

  function show() {
    const sample = data.tasks[select.task.value].samples[select.sample.value];
    const [left, right] = [select.left.value, select.right.value];
    const prompt = element('details');
    prompt.append(element('summary', `Prompt${sample.prompt.cut ? `, without its first ${sample.prompt.cut} characters` : ''}`),
                  element('pre', sample.prompt.text));
    const gold = element('p', `Gold answer: ${sample.gold}`);
    const pair = element('div', undefined, 'pair');
    const a = sample.answers[left], b = sample.answers[right];
    pair.append(column(data.groups[left], a, b), column(data.groups[right], b, a));
    document.getElementById('s-view').replaceChildren(prompt, gold, pair);
  }

  function showTask() {
    fill(select.sample, data.tasks[select.task.value].samples.map((s, i) => [i, s.sample]));
    show();
  }

  const groups = data.groups.map((name, i) => [i, name]);
  fill(select.task, data.tasks.map((task, i) => [i, task.name]));
  fill(select.left, groups);
  fill(select.right, groups);
  // At first the last compressor that answers the first sample otherwise than the first compressor does.
  const first = data.tasks[0].samples[0].answers;
  const others = groups.map(([i]) => i).filter((i) => first[i] && first[i].text !== first[0]?.text);
  select.right.value = others.length ? others[others.length - 1] : groups.length - 1;
  select.task.addEventListener('change', showTask);
  for (const list of [select.sample, select.left, select.right]) list.addEventListener('change', show);
  showTask();
})();
