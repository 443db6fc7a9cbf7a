// followers.mjs - who follows, and what stands in the way of an open there. Rows are kept and changed in place, so
// that a button keeps its focus while the numbers move.
import { $, badge, clock, count, element, word } from '/format.mjs';
import { confirm } from '/dialog.mjs';

const rows = new Map(); // follower_id -> {row, shown}

function rowOf(id) {
  let kept = rows.get(id);
  if (!kept) {
    const button = element('button', { type: 'button', onclick: () => confirm(kept.order) });
    kept = { row: element('tr', { 'data-follower': id }, ...Array.from({ length: 8 }, (_, i) => element('td', { class: i >= 4 && i <= 6 ? 'n' : null })), element('td', {}, button)), button, shown: '' };
    rows.set(id, kept);
  }
  return kept;
}

function fill(kept, one) {
  const text = JSON.stringify(one);
  if (kept.shown === text) return;
  kept.shown = text;
  const blocked = word(one.blocked_by, 'REASON_');
  const cells = [
    one.display_name ? `${one.follower_id} · ${one.display_name}` : one.follower_id,
    badge(word(one.mode, 'FOLLOWER_MODE_') || 'ACTIVE'),
    element('span', { title: one.connection_message }, badge(one.connected ? 'connected' : 'not connected'), one.connected || !one.connection_message ? '' : ` ${one.connection_message}`),
    blocked ? badge(blocked) : 'would be sent',
    one.drift_count ? element('span', { class: 'word bad' }, count(one.drift_count)) : '0',
    count(one.open_positions), `${one.balance} ${one.currency}`, one.adapter,
  ];
  cells.forEach((cell, i) => kept.row.children[i].replaceChildren(cell));
  const kind = one.halted ? 'resume' : 'halt';
  kept.order = { kind, scope: { follower_id: one.follower_id }, what: `follower ${one.follower_id}` };
  kept.button.textContent = one.halted ? 'Resume' : 'Halt';
  kept.button.setAttribute('aria-label', `${kept.button.textContent} follower ${one.follower_id}`);
  kept.button.className = one.halted ? '' : 'danger';
}

function haltWords({ everything, master_id, follower_id, note, by, since }) {
  const scope = everything ? 'Everything is halted' : ['Halted:', master_id && `master ${master_id}`, follower_id && `follower ${follower_id}`].filter(Boolean).join(' ');
  return `${scope}${since ? ` since ${clock(since)} UTC` : ''}${by ? ` by ${by}` : ''}${note ? `: ${note}` : ''}`;
}

let halts_shown = '';

export function followers({ followers: list, halts, is_cut }) {
  const seen = new Set(list.map(({ follower_id }) => follower_id));
  for (const [id, { row }] of rows) if (!seen.has(id)) { row.remove(); rows.delete(id); }
  const body = $('#followers tbody');
  list.forEach((one, i) => {
    const kept = rowOf(one.follower_id);
    fill(kept, one);
    if (body.children[i] !== kept.row) body.insertBefore(kept.row, body.children[i] ?? null);
  });
  const away = list.filter(({ connected }) => !connected).length, blocked = list.filter(({ blocked_by }) => word(blocked_by, 'REASON_')).length;
  $('#followers-sum').textContent = `${count(list.length)}${is_cut ? ' of more' : ''}; ${away} not connected, ${blocked} blocked`;
  const text = JSON.stringify(halts);
  if (text === halts_shown) return;
  halts_shown = text;
  $('#resume-all').hidden = !halts.some(({ everything }) => everything);
  $('#halts').replaceChildren(...halts.map((halt) => {
    const scope = halt.everything ? { everything: true } : Object.fromEntries(['master_id', 'follower_id'].filter((name) => halt[name]).map((name) => [name, halt[name]]));
    const what = halt.everything ? 'everything' : [halt.master_id, halt.follower_id].filter(Boolean).join(' at ');
    return element('li', {}, element('span', {}, haltWords(halt)),
      element('button', { type: 'button', 'aria-label': `Resume ${what}`, onclick: () => confirm({ kind: 'resume', scope, what }) }, 'Resume'));
  }));
}

for (const [id, kind] of [['#halt-all', 'halt'], ['#resume-all', 'resume']])
  $(id).addEventListener('click', () => confirm({ kind, scope: { everything: true }, what: 'everything' }));
