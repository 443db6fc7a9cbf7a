// copies.mjs - copies by state and reason, a page of them, and one explained.
import { $, ask, badge, clock, count, element, time, word } from '/format.mjs';

const PAGE = 25; // as the bridge asks for
let filter = { state: '', reason: '' };
let token = '';
let reading = 0; // answers to older questions are left alone
let counted = 0;

const stateOf = (copy) => word(copy.state, 'COPY_STATE_');
const reasonOf = (copy) => word(copy.reason, 'REASON_');

// ---- Counts: each is a button that shows its copies ----

export function counts({ counts: list, problem }) {
  $('#copies-problem').hidden = !problem;
  $('#copies-problem').textContent = problem ? `No counts: ${problem}.` : '';
  const chips = $('#counts');
  const wanted = [{ state: '', reason: '' }, ...(list ?? [])];
  const have = new Map([...chips.children].map((chip) => [chip.dataset.key, chip]));
  wanted.forEach(({ state, reason, count: n }, i) => {
    const shown = word(reason, ''), key = `${state}/${shown}`;
    let chip = have.get(key);
    have.delete(key);
    if (!chip) {
      chip = element('button', { type: 'button', 'data-key': key, onclick: () => { filter = { state, reason: shown }; list_copies(); } },
        state === '' ? 'all' : `${state}${shown ? ` · ${shown}` : ''}`, element('b'));
    }
    chip.lastChild.textContent = n === undefined ? '' : count(n);
    chip.setAttribute('aria-pressed', String(filter.state === state && filter.reason === shown));
    if (chips.children[i] !== chip) chips.insertBefore(chip, chips.children[i] ?? null);
  });
  have.forEach((chip) => chip.remove());
  const total = (list ?? []).reduce((sum, { count: n }) => sum + n, 0);
  if (total !== counted) follow();
  counted = total;
}

/** The list follows what happens, unless somebody is busy with it: a button must not move away from under a hand. */
function follow() {
  const is_first_page = $('#list tbody').children.length <= PAGE, list = $('#list');
  if (is_first_page && $('#order').value === '0' && !list.contains(document.activeElement) && !list.matches(':hover')) list_copies();
}

function press() {
  for (const chip of $('#counts').children)
    chip.setAttribute('aria-pressed', String(chip.dataset.key === `${filter.state}/${filter.reason}`));
}

// ---- A page of copies ----

export async function list_copies(is_more = false) {
  const mine = ++reading, slowest = $('#order').value;
  press();
  $('#list-h').textContent = `${slowest === '1' ? 'Slowest' : 'Newest'} copies${filter.state ? `: ${filter.state}${filter.reason ? `, ${filter.reason}` : ''}` : ''}`;
  const query = new URLSearchParams({ slowest, page_token: is_more ? token : '' });
  if (filter.state) query.append('state', `COPY_STATE_${filter.state}`);
  if (filter.reason) query.append('reason', `REASON_${filter.reason}`);
  try {
    const answer = await ask(`/api/copies?${query}`);
    if (mine !== reading) return;
    const rows = answer.copies.map(row);
    if (is_more) $('#list tbody').append(...rows); else $('#list tbody').replaceChildren(...rows);
    token = answer.next_page_token;
    $('#more').hidden = !token;
    $('#list-empty').hidden = $('#list tbody').children.length > 0;
    $('#list-problem').hidden = true;
  } catch (error) {
    if (mine !== reading) return;
    $('#list-problem').textContent = `The copies cannot be read: ${error.message}`;
    $('#list-problem').hidden = false;
  }
}

function row(copy) {
  const open = element('button', { type: 'button', 'aria-label': `Explain copy ${copy.copy_id} at ${copy.follower_id}`, onclick: () => explain(copy) }, 'Explain');
  const cells = [clock(copy.received_at), copy.follower_id, word(copy.action, 'COPY_ACTION_'), badge(stateOf(copy)), reasonOf(copy), copy.symbol,
                 copy.volume || '–', time(copy.times?.called_ns)];
  return element('tr', { 'data-copy': copy.copy_id }, ...cells.map((cell, i) => element('td', { class: i >= 6 ? 'n' : null }, cell)), element('td', {}, open));
}

$('#order').addEventListener('change', () => list_copies());
$('#reload').addEventListener('click', () => list_copies());
$('#more').addEventListener('click', () => list_copies(true));

// ---- One copy ----

const dialog = $('#why');
$('#why-close').addEventListener('click', () => dialog.close());

const FACTS = [['copy', 'copy_id'], ['event', 'event_id'], ['master', 'master_id'], ['position', 'master_position_id'], ['side', 'side', 'SIDE_'], ['type', 'type', 'ORDER_TYPE_'],
  ['price', 'price'], ['stop loss', 'stop_loss'], ['take profit', 'take_profit'], ['filled', 'filled_volume'], ['average price', 'average_price'], ['order at the broker', 'broker_order_id'],
  ['position at the broker', 'broker_position_id'], ['broker said', 'broker_message'], ['order calls', 'attempts']];
const TIMES = [['planned', 'planned_ns'], ['in the journal', 'journaled_ns'], ['a thread took it', 'started_ns'], ['order call made', 'called_ns'], ['the broker answered', 'answered_ns'], ['of it, held', 'held_ns'], ['on the way to us', 'upstream_ns']];

async function explain(listed) {
  const state = stateOf(listed), reason = reasonOf(listed);
  $('#why-h').textContent = `${word(listed.action, 'COPY_ACTION_')} at ${listed.follower_id}: ${state}${reason ? `, ${reason}` : ''}`;
  $('#why-body').replaceChildren(element('p', {}, 'Reading…'));
  dialog.showModal();
  const copy = await ask(`/api/copies/${encodeURIComponent(listed.copy_id)}`).catch(() => listed);
  const steps = element('div', { id: 'why-steps' });
  const facts = FACTS.map(([label, field, prefix]) => [label, prefix ? word(copy[field], prefix) : copy[field]]).filter(([, value]) => value);
  const remarks = copy.remarks.map((remark) => word(remark, 'REASON_'));
  $('#why-body').replaceChildren(
    element('p', { class: 'why-message' }, copy.message || 'The service said nothing more about it.'),
    ...(remarks.length ? [element('p', {}, `Remarks: ${remarks.join(', ')}`)] : []),
    steps,
    element('h3', {}, 'Since the event was received'),
    element('dl', { class: 'facts' }, ...TIMES.filter(([, field]) => copy.times?.[field] > 0).map(([label, field]) => element('div', {}, element('dt', {}, label), element('dd', {}, time(copy.times[field]))))),
    element('h3', {}, 'The copy'),
    element('table', {}, element('tbody', {}, ...facts.map(([label, value]) => element('tr', {}, element('th', { scope: 'row' }, label), element('td', {}, element('code', {}, String(value))))))));
  if (copy.origin === 'COPY_ORIGIN_EVENT' && ['SKIPPED', 'EXPIRED'].includes(state)) await show_steps(copy, steps);
}

/** Rule by rule. The rules are those of now, and so it says. */
async function show_steps(copy, place) {
  const query = new URLSearchParams({ master: copy.master_id, event: copy.event_id, follower: copy.follower_id });
  const explanation = await ask(`/api/explain?${query}`).catch((error) => ({ problem: error.message }));
  place.replaceChildren(element('h3', {}, 'Rule by rule, by the rules of now'));
  if (!explanation?.steps) return void place.append(element('p', { class: 'hint' }, explanation?.problem ?? 'Nothing applies any more.'));
  place.append(element('table', {},
    element('thead', {}, element('tr', {}, ...['Rule', 'In', 'Out', 'Arithmetic'].map((title) => element('th', {}, title)))),
    element('tbody', {}, ...explanation.steps.map(({ rule, input, output, note }) =>
      element('tr', {}, element('td', {}, rule), element('td', {}, input || '–'), element('td', {}, output || '–'), element('td', {}, note)))),
  ), element('p', { class: 'hint' }, `Comes to ${word(explanation.outcome?.state, 'COPY_STATE_')} ${word(explanation.outcome?.reason, 'REASON_')} today.`));
}
