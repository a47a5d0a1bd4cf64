"""Judges one line of tests/assets/matrix.tsv: matrix.py DIR KEY STATE OUTCOME..., DIR/out-MODE holds what a run and
doctor said; or compares the table with the one in the docs: matrix.py --table TSV MARKDOWN."""
import json
import sys

MODES = ('strict', 'degrade', 'auto', 'inline')


def read(path):
    with open(path, encoding='utf-8') as f:
        return f.read()


def judge(where, mode, key, state, outcome):
    problems = []
    out = f'{where}/out-{mode}'
    rc = int(read(f'{out}/rc'))
    stderr = read(f'{out}/stderr')
    events = [json.loads(line) for line in read(f'{out}/events').splitlines()]
    doctor_rc = int(read(f'{out}/doctor-rc'))
    try:
        doctor = json.loads(read(f'{out}/doctor'))
    except ValueError:
        return [f'doctor said {doctor_rc}: ' + read(f'{out}/doctor-err')]
    row = next(r for r in doctor['rows'] if r['key'] == key)
    by_type = {}
    for event in events:
        by_type.setdefault(event['type'], []).append(event['data'])

    def want(ok, text):
        if not ok:
            problems.append(f'{mode}: {text}; run said {rc}: {stderr!r}; doctor {doctor_rc}, {row}, '
                            f'checks {doctor.get("checks")}')

    want((rc == 0) == (doctor_rc == 0), 'doctor and run differ')
    want(doctor_rc in (0, 1), 'exit status of doctor')
    if outcome.startswith('refused'):
        code = outcome[len('refused '):] or 'SANDBOX_DRIVER_UNAVAILABLE'
        lines = [line for line in stderr.splitlines() if not line.startswith('cofferdam: degraded: ')]
        want(rc == 125, 'it was to be refused')
        want(len(lines) == 1, 'one line says why')
        refused = by_type.get('sandbox_refused', [{}])[-1]
        want(refused.get('failure_code') == code, f'event of the refusal: {refused}')
        want(lines and lines[0] == 'cofferdam: ' + refused.get('reason', ''), 'the event says what the line says')
        if code == 'SANDBOX_DRIVER_UNAVAILABLE':
            want(lines and row['name'] + ': ' in lines[0], 'the line names the row')
            want(lines and row['remedy'] and row['remedy'] in lines[0], 'the line has the remedy of the row')
        want(row['state'] in (state, 'degraded'), f'state of the row is {row["state"]}')
        want('sandbox_started' not in by_type, 'it started')
    else:
        want(rc == 0, 'it was to start')
        wanted = [data['wanted'] for data in by_type.get('sandbox_degraded', [])]
        if outcome == 'runs':
            want(not wanted and 'sandbox_skipped' not in by_type, f'it did without {wanted}')
            want(stderr == '', 'it said something')
        else:
            missed = outcome[len('without '):]
            want((missed == 'sandbox') == ('sandbox_skipped' in by_type), 'sandbox_skipped is for no sandbox at all')
            want(missed in wanted, f'no event for {missed}: {wanted}')
            want(f'instead of {missed}: ' in stderr, f'no word about {missed}')
            want(any(missed in check['message'] for check in doctor['checks'] if check['status'] == 'warn'),
                 f'doctor does not warn of {missed}')
        want(row['state'] in ((state,) if state != 'missing' else ('missing', 'degraded')),
             f'state of the row is {row["state"]}')
    return problems


def cells(path):
    for line in read(path).splitlines():
        if line and not line.startswith('#'):
            cell = line.split('\t')
            yield (cell[0], cell[1], cell[3], *cell[6:10])


def table(tsv, markdown):
    want = ['| missing | who | options | strict | degrade | `mode: auto` | inline |', '|---|---|---|---|---|---|---|']
    for cell in cells(tsv):
        options = f'`{cell[2]}`' if cell[2] else ''
        want.append('| ' + ' | '.join((*cell[:2], options, *cell[3:])) + ' |')
    have = [line for line in read(markdown).splitlines() if line.startswith('|')]
    have = have[have.index(want[0]):] if want[0] in have else []
    for i, line in enumerate(want):
        if i >= len(have) or have[i] != line:
            return [f'docs/ladder.md lacks: {line}', f'it has: {have[i] if i < len(have) else ""}']
    return []


if __name__ == '__main__':
    if sys.argv[1] == '--table':
        found = table(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == '--print':
        found = []
        for cell in cells(sys.argv[2]):
            options = f'`{cell[2]}`' if cell[2] else ''
            print('| ' + ' | '.join((*cell[:2], options, *cell[3:])) + ' |')
    else:
        found = []
        for mode, outcome in zip(MODES, sys.argv[4:8]):
            found += judge(sys.argv[1], mode, sys.argv[2], sys.argv[3], outcome)
    print('\n'.join(found))
    sys.exit(bool(found))
