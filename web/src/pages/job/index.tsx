import { Page } from '../../components/Page';
import { Empty } from '../../components/States';
import type { PageProps } from '../../router';

export default function JobPage({ params }: PageProps<'/jobs/:job_id'>) {
  return (
    <Page title={`Job ${params.job_id}`}>
      <Empty title="This page is not there yet" icon="jobs" />
    </Page>
  );
}
