/** Entry of the dashboard: starts clock, router, session and event stream, and draws the layout. */

import './styles/tokens.css';
import './styles/base.css';
import './styles/components.css';
import './styles/layout.css';
import './state/theme';

import { render } from 'preact';
import { checkHealth, followOtherTabs } from './api/client';
import { expectOverview, followSession } from './api/events';
import { Layout } from './layout/Layout';
import { path, startRouter } from './router';
import { startClock } from './state/clock';

startClock();
startRouter();
if (path.value === '/' || path.value === '/nodes') expectOverview();
followSession();
followOtherTabs();
void checkHealth();

const place = document.getElementById('app');
if (place) {
  place.replaceChildren();
  render(<Layout />, place);
}
