// Who sees the page: sign-in by token and by code, new tabs, sign-out; and what the page may load.
import assert from 'node:assert/strict';
import { accessible } from './scene.mjs';

const signedOut = (page) => page.getByRole('heading', { name: 'Sign in' }).waitFor();

export async function access(scene, done) {
    const context = await scene.context();
    const asked = [];
    context.on('request', (request) => asked.push(request.url()));
    const page = await scene.page(context, (scene.complaints ??= []));
    const answer = await page.goto(scene.home);
    assert.match(answer.headers()['content-security-policy'], /default-src 'none'; script-src 'self'; style-src 'self'/);
    await signedOut(page);
    await accessible(page, 'sign-in');
    await page.getByLabel('Or enter a token').fill('bp_none_of_these');
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('alert').filter({ hasText: 'token' }).waitFor();
    await signedOut(page);
    assert.equal(await page.getByRole('table').count(), 0);
    done('a wrong token shows nothing and is said to be wrong');

    await page.getByLabel('Or enter a token').fill(scene.token('submit'));
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByText('Live', { exact: true }).waitFor();
    await page.getByRole('link', { name: 'w1' }).waitFor();
    const other = await scene.page(context, scene.complaints);
    await other.goto(`${scene.home}#/workers`);
    await other.getByRole('link', { name: 'w1' }).waitFor();
    done('a new tab does not ask for the token again');

    const early = await scene.page(context, scene.complaints);
    await early.addInitScript(() => {
        const listen = window.addEventListener;
        window.addEventListener = (kind, ...rest) => {
            // The address changes in the moment before the page listens to it: no event will tell.
            if (kind === 'hashchange') history.replaceState(null, '', '#/workers');
            return listen.call(window, kind, ...rest);
        };
    });
    await early.goto(scene.home);
    await early.getByRole('heading', { name: 'Workers', level: 1 }).waitFor();
    await early.close();
    done('an address that changes while the page loads is followed');

    await page.getByRole('button', { name: 'Sign out' }).click();
    await signedOut(page);
    await signedOut(other);
    assert.deepEqual(await page.evaluate(() => [sessionStorage.length, Object.keys(localStorage)]), [0, ['buildpool.theme']]);
    done('who signs out is signed out in all tabs, and leaves no token');

    const made = await fetch(`${scene.home}api/v1/sign-in-codes`, { method: 'POST', headers: { Authorization: `Bearer ${scene.token('read')}` } });
    assert.equal(made.status, 201);
    const { code } = await made.json();
    await other.close();
    // The same document would only change its hash.
    await page.goto('about:blank');
    await page.goto(`${scene.home}#/sign-in/${code}`);
    await page.getByText('signed in as read (read)').waitFor();
    assert.equal(new URL(page.url()).hash, '#/');
    const again = await scene.page(await scene.context(), scene.complaints);
    await again.goto(`${scene.home}#/sign-in/${code}`);
    await again.getByRole('alert').filter({ hasText: 'code: it is unknown, was used' }).waitFor();
    await signedOut(again);
    done('a code signs in once');

    const origin = new URL(scene.home).origin;
    assert.deepEqual(asked.filter((url) => !url.startsWith(origin) && !url.startsWith('about:')), []);
    assert.ok(asked.every((url) => !url.includes('bp_')));
    done('nothing leaves the coordinator, and no address has a token');
}
