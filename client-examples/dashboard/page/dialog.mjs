// dialog.mjs - an order is given only after it was asked for.
import { $, ask, count } from '/format.mjs';

const dialog = $('#ask');
let order = null;

/** @param {{kind: 'halt' | 'resume', scope: object, what: string}} wanted */
export function confirm({ kind, scope, what }) {
  const is_halt = kind === 'halt';
  order = { kind, scope };
  $('#ask-h').textContent = `${is_halt ? 'Halt' : 'Resume'} ${what}?`;
  $('#ask-text').textContent = is_halt
    ? 'No position is opened there from now on; what waits to be opened is cancelled. Closes, cancels and tighter stops go on.'
    : 'Positions are opened there again, unless another halt or a limit holds them back.';
  $('#ask-note-l').hidden = $('#ask-close-l').hidden = !is_halt;
  $('#ask-note').value = '';
  $('#ask-close').checked = false;
  $('#ask-problem').hidden = true;
  const yes = $('#ask-yes');
  yes.textContent = is_halt ? 'Halt' : 'Resume';
  yes.className = is_halt ? 'danger' : '';
  yes.disabled = false;
  dialog.showModal();
  $('#ask-no').focus(); // a stray Enter does nothing
}

$('#ask-no').addEventListener('click', () => dialog.close());
$('#ask form').addEventListener('submit', (event) => event.preventDefault());
$('#ask-yes').addEventListener('click', async () => {
  const { kind, scope } = order;
  const extra = kind === 'halt' ? { note: $('#ask-note').value, close_positions: $('#ask-close').checked } : {};
  $('#ask-yes').disabled = true;
  try {
    const answer = await ask(`/api/${kind}`, { ...scope, ...extra });
    $('#news').textContent = kind === 'resume' ? 'Resumed.'
      : `Halted: ${count(answer.cancelled)} waiting opens cancelled, ${count(answer.in_flight)} calls were at a broker, ${count(answer.closing)} closing.`;
    dialog.close();
  } catch (error) {
    $('#ask-problem').textContent = `Not done, as far as we know: ${error.message}`;
    $('#ask-problem').hidden = false;
    $('#ask-yes').disabled = false;
  }
});
