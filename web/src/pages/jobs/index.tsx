import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Jobs() {
  return (
    <Page title="Jobs">
      <Empty title="This page is not there yet" icon="jobs" />
    </Page>
  );
}
