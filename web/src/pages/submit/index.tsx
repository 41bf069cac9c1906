import { Page } from '../../components/Page';
import { Empty } from '../../components/States';

export default function Submit() {
  return (
    <Page title="Submit">
      <Empty title="This page is not there yet" icon="submit" />
    </Page>
  );
}
