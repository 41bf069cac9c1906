import { Page } from '../../components/Page';
import { Empty } from '../../components/States';
import type { PageProps } from '../../router';

export default function Terminal({ params }: PageProps<'/jobs/:job_id/terminal'>) {
  return (
    <Page title={`Terminal ${params.job_id}`}>
      <Empty title="This page is not there yet" icon="terminal" />
    </Page>
  );
}
