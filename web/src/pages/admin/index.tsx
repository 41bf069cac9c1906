/** Administration: a tab for each part that the user may see. */

import './admin.css';
import type { ComponentType } from 'preact';
import { Page } from '../../components/Page';
import { Empty } from '../../components/States';
import { Tabs } from '../../components/Tabs';
import { navigate, query } from '../../router';
import { may } from '../../state/session';
import { Audit } from './audit';
import { NodeAdmission } from './nodes';
import { Secrets } from './secrets';
import { Servers } from './servers';
import { Settings } from './settings';
import { Tokens } from './tokens';
import { Users } from './users';

const TABS: readonly { id: string; label: string; visible: () => boolean; content: ComponentType }[] = [
  { id: 'users', label: 'Users and roles', visible: () => may('manage-tenants') || may('administer'), content: Users },
  { id: 'tokens', label: 'Tokens', visible: () => may('manage-own'), content: Tokens },
  { id: 'secrets', label: 'Secrets', visible: () => may('manage-own'), content: Secrets },
  { id: 'nodes', label: 'Node admission', visible: () => may('administer'), content: NodeAdmission },
  { id: 'audit', label: 'Audit log', visible: () => may('read-audit'), content: Audit },
  { id: 'servers', label: 'Servers', visible: () => may('administer') || may('read-audit'), content: Servers },
  { id: 'settings', label: 'Settings', visible: () => may('administer'), content: Settings },
];

export default function Admin() {
  const tabs = TABS.filter((tab) => tab.visible());
  const wanted = query.value.get('tab');
  const current = tabs.find((tab) => tab.id === wanted) ?? tabs[0];
  if (!current) {
    return (
      <Page title="Admin">
        <Empty title="Nothing for you to administer" icon="admin">
          Your role does not allow to manage tokens, users or servers. An operator can give you one.
        </Empty>
      </Page>
    );
  }
  const Content = current.content;
  return (
    <Page title="Admin">
      <Tabs label="Parts of the administration" tabs={tabs} current={current.id} onChange={(id) => navigate(`/admin?tab=${id}`)}>
        <Content key={current.id} />
      </Tabs>
    </Page>
  );
}
