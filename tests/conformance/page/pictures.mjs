// Makes the pictures of the README: the page and `top` of a scripted pool.
//
//     pictures.mjs BUILDPOOL CHROMIUM DIRECTORY
//
// `sources` in the directory has names and sizes of the files that the pictures show; a test compares them.
import { execFileSync } from 'node:child_process';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { Scene } from './scene.mjs';

const [buildpool, chromium, directory] = process.argv.slice(2).map((path) => resolve(path));
const root = resolve(directory, '../..');
const DESKTOP = { viewport: { width: 1280, height: 800 } };
const FAILURE = `printf '\\033[32m   Compiling\\033[0m orders v0.1.0 (/work/api)\\n'; seq -f 'test orders::total_%g ... ok' 1 40
echo 'error[E0308]: mismatched types' >&2; echo '  --> src/orders.rs:142:9' >&2; echo '   |' >&2
echo '142 |         total,' >&2; echo '   |         ^^^^^ expected \`u64\`, found \`u32\`' >&2
printf '\\033[1;31merror\\033[0m: could not compile \`orders\` (lib) due to 1 previous error\\n' >&2; exit 101`;

function top(scene) {
    const socket = join(scene.place, 'tmux');
    const tmux = (...args) => execFileSync('tmux', ['-S', socket, ...args], { env: { ...scene.env, TERM: 'xterm-256color' }, encoding: 'utf8' });
    tmux('new-session', '-d', '-x', '110', '-y', '30', '-s', 'top', `${scene.buildpool} top`);
    return { lines: () => tmux('capture-pane', '-e', '-p', '-t', 'top').split('\n'), end: () => tmux('kill-server') };
}

/** Draws a terminal's lines with the colours of the page's log. */
async function drawn(page, lines) {
    await page.evaluate(async (all) => {
        const files = document.querySelector('link[rel=stylesheet]').href.replace('app.css', 'ansi.js');
        const { pieces } = await import(files);
        const terminal = document.createElement('pre');
        terminal.className = 'log terminal';
        terminal.id = 'terminal';
        Object.assign(terminal.style, { height: 'auto', padding: '16px', fontSize: '14px', lineHeight: '18px', width: 'max-content' });
        for (const line of all) {
            for (const piece of pieces(line)) {
                const span = document.createElement('span');
                span.textContent = piece.text;
                span.className = piece.class;
                terminal.append(span);
            }
            terminal.append('\n');
        }
        document.body.replaceChildren(terminal);
    }, lines);
    return page.locator('#terminal');
}

/** The files whose change changes a picture. */
function sources() {
    const page = 'coordinator/src/net/page';
    const files = readdirSync(join(root, page)).filter((name) => /\.(js|css)$/.test(name)).map((name) => `${page}/${name}`);
    return [...files, 'cli/src/top/view.rs'].sort().map((file) => `${file} ${statSync(join(root, file)).size}\n`).join('');
}

const scene = new Scene(buildpool);
try {
    for (const role of ['admin', 'worker', 'submit']) scene.token(role);
    scene.crowd('seed', scene.data, '4000');
    await scene.coordinator();
    await scene.worker('studio-1');
    // The workers of the crowd never end a job.
    writeFileSync(join(scene.work, 'ci.sh'), FAILURE);
    execFileSync('git', ['init', '-q', scene.work]);
    const failed = JSON.parse(scene.run(['run', '--output', 'json', '--', 'sh', 'ci.sh'], { code: 101 }));
    scene.crowd('workers', scene.address, scene.token('worker'), '40');
    await scene.until('the workers are connected', () => JSON.parse(scene.run(['workers', '--json'])).filter((one) => one.connected).length === 41);
    for (const [text, label] of [['xcodebuild test -scheme Shop', 'os=macos'], ['cargo test --workspace', 'os=linux'], ['swift build -c release', 'xcode=26.1']]) {
        for (let number = 0; number < 9; number += 1) scene.submit(text, '--label', label);
    }
    for (let number = 0; number < 4; number += 1) scene.submit('make simulator-images', '--label', 'xcode=15.0', '--wait-for-worker', '1h');
    await scene.open(chromium);
    const page = await scene.signedIn('submit', DESKTOP);
    await page.locator('.figure').filter({ hasText: 'Slots in use' }).filter({ hasText: /in use\d\d/ }).waitFor();
    await page.screenshot({ path: join(directory, 'overview.png') });
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.goto(`${scene.home}#/jobs/${failed.job_id}`);
    await page.locator('.line').filter({ hasText: 'could not compile' }).waitFor();
    await page.screenshot({ path: join(directory, 'job.png') });
    const terminal = top(scene);
    await scene.until('top shows the workers', () => terminal.lines().some((line) => line.includes('mini-2')));
    await pause(2_500);
    const lines = terminal.lines();
    terminal.end();
    await (await drawn(page, lines)).screenshot({ path: join(directory, 'top.png') });
    writeFileSync(join(directory, 'sources'), sources());
} finally {
    await scene.browser?.close();
    scene.close();
}
