/** Entry of the dashboard: starts clock, router, session and event stream, and draws the layout. */

import './styles/tokens.css';
import './styles/base.css';
import './styles/components.css';
import './styles/layout.css';
import './state/theme';

import { render } from 'preact';
import { checkHealth } from './api/client';
import { followSession } from './api/events';
import { Layout } from './layout/Layout';
import { startRouter } from './router';
import { startClock } from './state/clock';

startClock();
startRouter();
followSession();
void checkHealth();

const place = document.getElementById('app');
if (place) {
  place.replaceChildren();
  render(<Layout />, place);
}
