// A real pool and a real browser for the checks and the pictures of the page.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as pause } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const FLAGS = ['--no-sandbox', '--disable-dev-shm-usage', '--disable-gpu', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
/** A busy machine takes its time. */
const PATIENCE_MS = Number(process.env.PATIENCE ?? 120_000);
const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

export class Scene {
    constructor(buildpool) {
        this.buildpool = buildpool;
        this.place = mkdtempSync(join(tmpdir(), 'page-'));
        this.data = join(this.place, 'coordinator');
        this.work = join(this.place, 'work');
        mkdirSync(this.work);
        this.env = { PATH: process.env.PATH, HOME: this.place };
        this.children = [];
        this.tokens = {};
    }

    /** Runs the program, and returns what it prints. `code` is the expected exit code. */
    run(args, { code = 0, env = {} } = {}) {
        try {
            return execFileSync(this.buildpool, args, { env: { ...this.env, ...env }, cwd: this.work, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
        } catch (error) {
            assert.equal(error.status, code, `${args.join(' ')}: ${error.stderr}`);
            return error.stdout;
        }
    }

    /** Submits a job without files, and returns its id. */
    submit(text, ...options) {
        return this.run(['run', '--no-snapshot', '--detach', ...options, '--', 'sh', '-c', text]).trim();
    }

    /** Runs a job without files, and returns its result. */
    result(text, code = 0) {
        return JSON.parse(this.run(['run', '--no-snapshot', '--output', 'json', '--', 'sh', '-c', text], { code }));
    }

    start(program, args, more = {}) {
        const child = spawn(program, args, { env: { ...this.env, ...more }, cwd: this.work, stdio: ['pipe', 'pipe', 'ignore'] });
        this.children.push(child);
        return child;
    }

    token(role) {
        this.tokens[role] ??= JSON.parse(this.run(['token', 'create', '--role', role, '--name', role, '--data-dir', this.data, '--json'])).token;
        return this.tokens[role];
    }

    /** Starts the coordinator, and makes it the pool of later commands. */
    async coordinator(listen = '127.0.0.1:0') {
        this.token('submit');
        const child = this.start(this.buildpool, ['coordinator', '--listen', listen, '--data-dir', this.data]);
        const [url] = await new Promise((found) => createInterface(child.stdout).once('line', (line) => found([line])));
        Object.assign(this.env, { BUILDPOOL_URL: url, BUILDPOOL_TOKEN: this.token('submit') });
        this.home = `http${url.slice(2)}/`;
        this.address = url.slice('ws://'.length);
        return child;
    }

    async worker(name, slots = 2, more = []) {
        const own = ['--coordinator', this.env.BUILDPOOL_URL, '--data-dir', join(this.place, name), '--name', name, '--slots', String(slots), '--no-tools', '--label', 'real', ...more];
        this.start(this.buildpool, ['worker', ...own], { BUILDPOOL_TOKEN: this.token('worker') });
        await this.until(`${name} comes`, () => JSON.parse(this.run(['workers', '--json'])).some((worker) => worker.name === name && worker.connected));
    }

    crowd(...args) {
        const program = join(dirname(this.buildpool), 'crowd');
        assert.ok(existsSync(program), `${program} is missing: cargo build -p buildpool-tests --bin crowd`);
        if (args[0] === 'seed') return execFileSync(program, args, { stdio: 'inherit' });
        return this.start(program, args);
    }

    async until(what, isSo) {
        const end = Date.now() + PATIENCE_MS;
        while (!(await isSo())) {
            assert.ok(Date.now() < end, `not in time: ${what}`);
            await pause(50);
        }
    }

    async open(executablePath) {
        this.browser = await chromium.launch({ executablePath, args: FLAGS });
        return this.browser;
    }

    /** A window of its own, with its own storage. Complaints of the browser are collected. */
    async context(options = {}) {
        const context = await this.browser.newContext(options);
        context.setDefaultTimeout(PATIENCE_MS);
        // For work on the page: its files as they are now instead of those in the program.
        const files = process.env.PAGE_FILES;
        if (files) {
            await context.route('**/assets/**', (route) => route.fulfill({ path: join(files, new URL(route.request().url()).pathname.split('/').slice(3).join('/')) }));
        }
        return context;
    }

    async page(context, complaints = []) {
        const page = await context.newPage();
        page.on('pageerror', (error) => complaints.push(String(error.stack ?? error)));
        page.on('console', (message) => message.text().includes('Content Security') && complaints.push(message.text()));
        return page;
    }

    /** A page that is signed in. */
    async signedIn(role, options) {
        const page = await this.page(await this.context(options), (this.complaints ??= []));
        await page.goto(this.home);
        await page.getByLabel('Or enter a token').fill(this.token(role));
        await page.getByRole('button', { name: 'Sign in' }).click();
        await page.getByText('Live', { exact: true }).waitFor();
        return page;
    }

    close() {
        for (const child of this.children) child.kill('SIGKILL');
        rmSync(this.place, { recursive: true, force: true });
    }
}

/** Fails if axe finds a violation. */
export async function accessible(page, what) {
    // A script in markup is forbidden; the debugger may still run one.
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ['violations'] }));
    const found = violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160)).join(' | ')}`);
    assert.deepEqual(found, [], what);
}

/** Fails if the page is wider than its window. */
export async function fits(page, what) {
    const [needs, has] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(needs <= has, `${what}: the page needs ${needs} px of ${has}`);
}
