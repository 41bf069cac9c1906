"""Every command and its one line: so that help and dispatch need not import them all."""

COMMANDS = {
    "up": "start tgpu on this machine",
    "down": "stop it; running jobs go on",
    "submit": "put a job into the queue",
    "run": "submit, show the output live, end with the job's exit code",
    "list": "jobs that wait or run: whose, on which GPUs, since when",
    "show": "all about a job",
    "logs": "a job's output",
    "exec": "run a program inside a running job",
    "attach": "come back to the terminal of a job of `run --pty`",
    "why": "why a job waits, when it starts, and what would start it now",
    "cancel": "stop jobs, or take them out of the queue",
    "hold": "keep jobs that wait from being started",
    "release": "let jobs start that are held",
    "retry": "run again what failed of jobs and arrays",
    "suspend": "stop jobs for now",
    "resume": "let jobs go on that are suspended",
    "rerun": "run jobs once more, exactly as they were",
    "edit": "change jobs that still wait",
    "graph": "which jobs wait for which",
    "wait": "wait until jobs have ended",
    "nodes": "machines and their GPUs: who has which",
    "windows": "nodes kept for maintenance, or for somebody, during a time",
    "queues": "how much waits, by tenant and class, and what the first waits for",
    "quota": "what you may have at once, and what is left of it",
    "tenants": "who shares the machines: weights, shares, use",
    "users": "who has which role in which tenant",
    "whoami": "who the server takes you for, and your roles",
    "secret": "values that your jobs get and nobody is shown",
    "audit": "who changed what",
    "servers": "the cluster's servers: who leads, versions, since when",
    "stats": "the cluster in figures",
    "history": "jobs that have ended",
    "report": "who used how much, and what it comes to",
    "backup": "copy the database file, while the server runs",
    "restore": "put a backup back",
    "promote": "move this installation to PostgreSQL, for several servers",
    "doctor": "what is wrong here, and how to mend it",
    "token": "tokens for access over TCP, and for programs",
    "server-ca": "the certificate by which the cluster's servers are known",
    "server": "run only the server, in the foreground",
    "agent": "run only this machine's agent, in the foreground",
    "slurm": "Slurm's commands, for scripts that call them",
    "completion": "shell completion for bash, zsh or tcsh",
}


def module_of(command: str) -> str:
    return f"tgpu.cli.commands.{command.replace('-', '_')}"


ELSEWHERE = {
    "kill": "cancel",
    "stop": "cancel",
    "delete": "cancel",
    "rm": "cancel",
    "ls": "list",
    "ps": "list",
    "queue": "list",
    "jobs": "list",
    "status": "list",
    "top": "list --watch",
    "info": "show",
    "describe": "show",
    "tail": "logs -f",
    "sbatch": "submit",
    "srun": "run",
    "squeue": "list",
    "scancel": "cancel",
    "sinfo": "nodes",
    "sacct": "history",
    "scontrol": "show",
    "drain": "nodes drain",
    "undrain": "nodes undrain",
    "cordon": "nodes drain",
    "uncordon": "nodes undrain",
    "join": "agent --server https://HOST:7480 --join @FILE",
    "join-token": "nodes join-token",
    "nodes cordon": "nodes drain",
    "nodes uncordon": "nodes undrain",
    "nodes resume": "nodes undrain",
    "nodes delete": "nodes remove",
    "windows add": "windows create",
    "windows remove": "windows cancel",
    "windows delete": "windows cancel",
}
"""What people type who know other schedulers, and what it is called here."""

SELECTORS = """\
JOBS may be 42, 42-45, 3,7-12, last (your newest), last-1 (the one before), or all (yours that
wait or run); several may be given.
"""
