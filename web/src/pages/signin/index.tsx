/** Sign-in: by a one-time link, whose code is in the fragment, or by a token. */

import { useEffect, useState } from 'preact/hooks';
import { errorText, signIn } from '../../api/client';
import { Button } from '../../components/Button';
import { Code } from '../../components/Code';
import { Input } from '../../components/Field';
import { Skeleton } from '../../components/States';
import { match, navigate, usePageTitle } from '../../router';
import { session, type SignedOutReason } from '../../state/session';
import './signin.css';

const REASONS: Record<SignedOutReason, string> = {
  none: '',
  ended: 'Your session has ended. Sign in again; this page then continues where it was.',
  restarted: 'The server was restarted, which ends sessions. Sign in again with a new link.',
  left: 'You are signed out.',
};

/** The code of a one-time link. It is removed from the address at once, so that it is not kept in the history. */
function takeCode(): string | null {
  const code = new URLSearchParams(location.hash.slice(1)).get('code');
  if (code !== null) history.replaceState(history.state, '', location.pathname + location.search);
  return code;
}

export default function SignIn() {
  usePageTitle('Sign in');
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const [following, setFollowing] = useState(false);

  const enter = async (credential: { code: string } | { token: string }) => {
    setBusy(true);
    setProblem('');
    try {
      await signIn(credential);
      if (match.peek().route.path === '/signin') navigate('/', { replace: true });
    } catch (error) {
      setProblem(errorText(error));
    } finally {
      setBusy(false);
      setFollowing(false);
    }
  };

  useEffect(() => {
    const follow = () => {
      const code = takeCode();
      if (code === null) return;
      setFollowing(true);
      void enter({ code });
    };
    follow();
    // A link that is pasted into the address of an open page changes only its fragment.
    window.addEventListener('hashchange', follow);
    return () => window.removeEventListener('hashchange', follow);
  }, []);

  const current = session.value;
  useEffect(() => {
    if (current.state === 'signed-in' && !following && match.peek().route.path === '/signin' && !location.hash) {
      navigate('/', { replace: true });
    }
  }, [current.state, following]);

  if (following) {
    return (
      <div class="signin">
        <section class="signin-card">
          <h1>Signing in…</h1>
          <Skeleton lines={2} />
        </section>
      </div>
    );
  }

  const reason = current.state === 'signed-out' ? REASONS[current.reason] : '';
  return (
    <div class="signin">
      <section class="signin-card">
        <h1>Sign in to tgpu</h1>
        {reason && (
          <p class="signin-reason" role="status">
            {reason}
          </p>
        )}
        <h2>With a link</h2>
        <p>On the machine where tgpu runs, or wherever you use the command line, type:</p>
        <Code text="tgpu web" />
        <p class="muted">It opens this page, signed in as you. The link works once, for a few minutes.</p>
        <div class="signin-or" aria-hidden="true">
          or
        </div>
        <h2>With a token</h2>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (token.trim()) void enter({ token: token.trim() });
          }}
        >
          <Input
            label="Token"
            type="password"
            name="token"
            value={token}
            onInput={setToken}
            error={problem}
            hint={<><code>tgpu token create</code> makes one. The page does not keep it.</>}
            placeholder="tgpu_…"
            spellcheck={false}
          />
          <Button kind="primary" type="submit" busy={busy} disabled={!token.trim()}>
            Sign in
          </Button>
        </form>
      </section>
    </div>
  );
}
