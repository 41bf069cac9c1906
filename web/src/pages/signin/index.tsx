/** Sign-in: by a one-time link, whose code is in the fragment, or by a token. */

import { useEffect, useState } from 'preact/hooks';
import { ApiError, errorText, signIn } from '../../api/client';
import { Button, ButtonLink } from '../../components/Button';
import { Code, Prose } from '../../components/Code';
import { Input } from '../../components/Field';
import { Skeleton } from '../../components/States';
import { toast } from '../../components/Toast';
import { href, match, navigate, usePageTitle } from '../../router';
import { session, user, type SignedOutReason } from '../../state/session';
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

/** Resolves when it is known whether this browser has a session. */
function sessionKnown(): Promise<void> {
  return new Promise((resolve) => {
    const end = session.subscribe(({ state }) => {
      if (state === 'loading') return;
      resolve();
      queueMicrotask(() => end());
    });
  });
}

export default function SignIn() {
  usePageTitle('Sign in');
  const [token, setToken] = useState('');
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState('');
  const [following, setFollowing] = useState(false);

  const [other, setOther] = useState<{ code: string; user: string } | null>(null);

  const enter = async (credential: Parameters<typeof signIn>[0]) => {
    setBusy(true);
    setProblem('');
    try {
      await signIn(credential);
      toast(`You are signed in as ${user.peek()?.user_id}.`);
      if (match.peek().route.path === '/signin') navigate('/', { replace: true });
    } catch (error) {
      if (error instanceof ApiError && error.kind === 'another-user' && 'code' in credential) {
        setOther({ code: credential.code, user: String(error.problem['user_id']) });
      } else setProblem(errorText(error));
    } finally {
      setBusy(false);
      setFollowing(false);
    }
  };

  /** The page begins again, so that it shows nothing of the former user. */
  const change = async (code: string) => {
    setBusy(true);
    try {
      await signIn({ code });
      location.replace(href('/'));
    } catch (error) {
      setOther(null);
      setProblem(errorText(error));
      setBusy(false);
    }
  };

  useEffect(() => {
    const follow = async () => {
      const code = takeCode();
      if (code === null) return;
      setFollowing(true);
      await sessionKnown();
      const only_user_id = user.peek()?.user_id;
      void enter(only_user_id === undefined ? { code } : { code, only_user_id });
    };
    const onHash = () => void follow();
    onHash();
    // A link that is pasted into the address of an open page changes only its fragment.
    window.addEventListener('hashchange', onHash);
    return () => window.removeEventListener('hashchange', onHash);
  }, []);

  const current = session.value;
  const isIdle = !following && other === null && !problem;
  useEffect(() => {
    if (current.state === 'signed-in' && isIdle && match.peek().route.path === '/signin' && !location.hash) {
      navigate('/', { replace: true });
    }
  }, [current.state, isIdle]);

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
  if (current.state === 'signed-in') {
    const mine = current.user.user_id;
    return (
      <div class="signin">
        <section class="signin-card">
          <h1>{other ? 'Change the user?' : 'The link was not used'}</h1>
          {other ? (
            <p>
              You are signed in as <b>{mine}</b>. This link signs you in as <b>{other.user}</b>. If you did not make it yourself, stay{' '}
              {mine}: jobs, secrets and files of a terminal would belong to {other.user}.
            </p>
          ) : (
            <p role="alert">
              <Prose text={problem} />
            </p>
          )}
          <div class="signin-choices">
            <ButtonLink kind="primary" href={href('/')}>
              Stay signed in as {mine}
            </ButtonLink>
            {other && (
              <Button busy={busy} onClick={() => void change(other.code)}>
                Sign in as {other.user}
              </Button>
            )}
          </div>
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
