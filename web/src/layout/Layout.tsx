/** Layout of every page: header, navigation, the page itself, messages and dialogs. */

import { Component, type ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { checkHealth, health, loadSession, newVersion, reachable, signOut } from '../api/client';
import { streamState } from '../api/events';
import { Button } from '../components/Button';
import { ConfirmHost, Dialog } from '../components/Dialog';
import { Icon } from '../components/Icon';
import { Menu } from '../components/Menu';
import { ErrorBox, Skeleton } from '../components/States';
import { ToastHost, toastError } from '../components/Toast';
import { href, match, navigate, path, type PageProps, type Route } from '../router';
import { highestRole, session, user } from '../state/session';
import { read, write } from '../state/storage';
import { chooseTheme, themeChoice, type ThemeChoice } from '../state/theme';
import SignIn from '../pages/signin';
import { isCurrent, visibleItems } from './navigation';
import { helpShown, startShortcuts } from './shortcuts';

export function Layout() {
  const [failure, setFailure] = useState<unknown>(null);
  const load = () => {
    setFailure(null);
    loadSession().catch(setFailure);
  };
  useEffect(load, []);
  useEffect(startShortcuts, []);
  const main = useRef<HTMLElement>(null);
  useFocusOnNavigation(main);
  return (
    <div class={`layout ${user.value ? '' : 'layout-bare'}`}>
      <a class="skip-link" href="#main" onClick={(event) => focusMain(event, main.current)}>
        Skip to content
      </a>
      <Header />
      {user.value && <SideNavigation />}
      <main id="main" ref={main} tabIndex={-1}>
        <NewVersion />
        {failure ? <Frame><ErrorBox error={failure} onRetry={load} /></Frame> : <Content />}
      </main>
      {user.value && <BottomNavigation />}
      <ToastHost />
      <ConfirmHost />
      {helpShown.value && <ShortcutHelp />}
    </div>
  );
}

function Frame({ children }: { children: ComponentChildren }) {
  return <div class="page">{children}</div>;
}

/** The page of the path; the sign-in page in its place while no user is signed in, so that signing in returns to it. */
function Content() {
  const { route, params } = match.value;
  const { state } = session.value;
  if (route.path === '/signin') return <SignIn />;
  if (state === 'loading') return <Frame><Skeleton lines={6} /></Frame>;
  if (state === 'signed-out' && !route.open) return <SignIn />;
  return <LazyPage key={route.path} route={route} params={params} />;
}

type PageComponent = Awaited<ReturnType<Route['load']>>['default'];
const loaded = new Map<Route, PageComponent>();

const RELOADED = 'reloaded';

/** After an upgrade the files of the old version are gone: a reload gets the new ones. If it does not help, the user is asked. */
async function reloadOnce(): Promise<boolean> {
  await checkHealth();
  if (!reachable.value || read(RELOADED)) return false;
  write(RELOADED, 'yes');
  location.reload();
  return true;
}

function LazyPage({ route, params }: { route: Route; params: PageProps['params'] }) {
  const [page, setPage] = useState<{ component: PageComponent } | null>(() => {
    const component = loaded.get(route);
    return component ? { component } : null;
  });
  const [error, setError] = useState<unknown>(null);
  const load = () => {
    setError(null);
    route
      .load()
      .then((module) => {
        loaded.set(route, module.default);
        setPage({ component: module.default });
        write(RELOADED, null);
      })
      .catch(async (problem: unknown) => {
        if (!(await reloadOnce())) setError(problem);
      });
  };
  useEffect(() => {
    if (!page) load();
  }, []);
  if (error) {
    return (
      <Frame>
        <ErrorBox title="This page could not be loaded" error={error} onRetry={() => location.reload()} />
      </Frame>
    );
  }
  if (!page) return <Frame><Skeleton lines={6} /></Frame>;
  const Shown = page.component;
  return (
    <Boundary key={path.value}>
      <Shown params={params} />
    </Boundary>
  );
}

/** Shows an error of a page in its place, and leaves header and navigation usable. */
class Boundary extends Component<{ children: ComponentChildren }, { error: unknown }> {
  override state = { error: null as unknown };

  override componentDidCatch(error: unknown) {
    this.setState({ error });
    console.error(error);
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <Frame><ErrorBox error={this.state.error} onRetry={() => this.setState({ error: null })} /></Frame>;
  }
}

function useFocusOnNavigation(main: { current: HTMLElement | null }) {
  const current = path.value;
  const first = useRef(true);
  useEffect(() => {
    if (first.current) first.current = false;
    else if (!main.current?.contains(document.activeElement)) main.current?.focus({ preventScroll: true });
    else if (document.activeElement instanceof HTMLElement && !document.activeElement.isConnected) main.current.focus();
  }, [current]);
}

function focusMain(event: Event, main: HTMLElement | null) {
  event.preventDefault();
  main?.focus();
}

function Header() {
  return (
    <header class="header">
      <a class="brand" href={href('/')} aria-label="tgpu, overview">
        <Logo />
        <span>tgpu</span>
      </a>
      <span class="cluster" title={health.value ? `Cluster ${health.value.cluster_id}, tgpu ${health.value.version}` : undefined}>
        {clusterName()}
      </span>
      <span class="spacer" />
      {user.value && <ConnectionState />}
      <ThemeMenu />
      {user.value && <UserMenu />}
    </header>
  );
}

function clusterName(): string {
  if (health.value?.cluster_name) return health.value.cluster_name;
  return /(^|\.)localhost$|^127\.|^\[?::1/.test(location.hostname) ? 'this machine' : location.hostname;
}

function Logo() {
  return (
    <svg width="20" height="20" viewBox="0 0 20 20" aria-hidden="true" class="logo">
      <rect x="1" y="1" width="8" height="8" rx="1.800" />
      <rect x="11" y="1" width="8" height="8" rx="1.800" class="logo-dim" />
      <rect x="1" y="11" width="8" height="8" rx="1.800" class="logo-dim" />
      <rect x="11" y="11" width="8" height="8" rx="1.800" />
    </svg>
  );
}

function ConnectionState() {
  const state = streamState.value;
  const live = state === 'live';
  const text = live ? 'Live' : reachable.value && state !== 'reconnecting' ? 'Connecting…' : 'Reconnecting…';
  return (
    <span class={`connection ${live ? 'connection-live' : 'connection-lost'}`} role="status" title={live ? 'Changes appear by themselves' : 'What is shown may be out of date'}>
      <span class="connection-dot" aria-hidden="true" />
      {text}
    </span>
  );
}

const THEMES: readonly { choice: ThemeChoice; label: string; icon: 'screen' | 'sun' | 'moon' }[] = [
  { choice: 'system', label: 'Like the system', icon: 'screen' },
  { choice: 'light', label: 'Light', icon: 'sun' },
  { choice: 'dark', label: 'Dark', icon: 'moon' },
];

function ThemeMenu() {
  const current = THEMES.find((one) => one.choice === themeChoice.value) ?? THEMES[0];
  return (
    <Menu
      kind="quiet"
      align="right"
      name="Theme"
      label={<Icon name={current?.icon ?? 'screen'} />}
      items={THEMES.map(({ choice, label }) => ({
        label,
        checked: choice === themeChoice.value,
        onSelect: () => chooseTheme(choice),
      }))}
    />
  );
}

function UserMenu() {
  const who = user.value;
  if (!who) return null;
  const role = highestRole(who);
  return (
    <Menu
      kind="quiet"
      align="right"
      name={`User ${who.user_id}`}
      label={
        <>
          <Icon name="user" />
          <span class="user-name">{who.user_id}</span>
          <Icon name="down" size={12} />
        </>
      }
      header={
        <>
          <b>{who.user_id}</b>
          <span class="muted">{role ? `Role: ${role}` : 'No role'}</span>
        </>
      }
      items={[
        { label: 'Keyboard shortcuts', icon: 'keyboard', onSelect: () => (helpShown.value = true) },
        'separator',
        { label: 'Sign out', icon: 'external', onSelect: () => void signOut().catch(toastError) },
      ]}
    />
  );
}

function SideNavigation() {
  const items = visibleItems();
  return (
    <nav class="side" aria-label="Pages">
      <ul>
        {items.map((item) => (
          <li key={item.path}>
            <a class="nav-link" href={href(item.path)} aria-current={isCurrent(item, path.value) ? 'page' : undefined}>
              <Icon name={item.icon} />
              {item.label}
            </a>
          </li>
        ))}
      </ul>
      <button type="button" class="nav-help" onClick={() => (helpShown.value = true)}>
        <kbd>?</kbd> Shortcuts
      </button>
    </nav>
  );
}

function BottomNavigation() {
  const items = visibleItems();
  const more = items.filter((item) => !item.main);
  const inMore = more.some((item) => isCurrent(item, path.value));
  return (
    <nav class="bottom" aria-label="Pages">
      {items
        .filter((item) => item.main)
        .map((item) => (
          <a key={item.path} class="bottom-link" href={href(item.path)} aria-current={isCurrent(item, path.value) ? 'page' : undefined}>
            <Icon name={item.icon} size={18} />
            {item.label}
          </a>
        ))}
      <div class={`bottom-link ${inMore ? 'bottom-current' : ''}`}>
        <Menu
          kind="quiet"
          align="right"
          label={
            <span class="bottom-more">
              <Icon name="menu" size={18} />
              More
            </span>
          }
          items={more.map((item) => ({ label: item.label, icon: item.icon, onSelect: () => navigate(item.path) }))}
        />
      </div>
    </nav>
  );
}

function NewVersion() {
  if (newVersion.value === null) return null;
  return (
    <div class="notice" role="status">
      <Icon name="info" />
      <span>The server was upgraded to tgpu {newVersion.value}. This page is of the version before.</span>
      <Button size="small" kind="primary" onClick={() => location.reload()}>
        Reload
      </Button>
    </div>
  );
}

function ShortcutHelp() {
  const rows: [string[], string][] = [
    ...visibleItems().map((item): [string[], string] => [['g', item.key], item.label]),
    [['/'], 'Search in this page'],
    [['↑', '↓'], 'Move in a table'],
    [['Enter'], 'Open the row'],
    [['Space'], 'Select the row; with Shift the rows between'],
    [['?'], 'This list'],
  ];
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (helpShown.value = false)}>
      <dl class="shortcut-list">
        {rows.map(([keys, text]) => (
          <div key={text} class="shortcut">
            <dt>
              {keys.map((key) => (
                <kbd key={key}>{key}</kbd>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

