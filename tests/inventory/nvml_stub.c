/* GPUs as NVML would describe them, three or as many as NVML_STUB_COUNT says. NVML_STUB_LINKS is a list of links such
   as "0-1 2-s": between two GPUs, or from one to a switch. With NVML_STUB_OLD, the library is an older one that tells
   less.

   NVML_STUB_CONTROL names a file that is read anew at every call, so that a test can change the world under a running
   program. Its lines, of GPU 0 as an example:
     count 2                  so many are there
     gpu 0 lost               it has fallen off the bus
     gpu 0 temperature 97     °C (40 unless said)
     gpu 0 power 250000       mW (100000)
     gpu 0 slow 64            why its clocks are low, in NVML's bits
     gpu 0 ecc 3 5            errors that could not be corrected: since the driver was loaded, ever
     gpu 0 remap 1 0          a row is to be replaced; one could not be
     gpu 0 action 1           what the driver asks for (not told unless said)
     gpu 0 process 4711 12288 a process that computes: its pid, and MiB
     gpu 0 graphics 4712 300  one that draws
     gpu 0 busy 4711 60       how busy a process keeps it, in percent (not told unless said; of process 0: nobody does)
     xid 1 0 79               the first event of all: an Xid of GPU 0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { TIMEOUT = 10, GPU_IS_LOST = 15 };
enum { MOST = 9, TO_GPU = 0, TO_SWITCH = 2, RECOVERY_ACTION = 230, XID_EVENT = 8 };
typedef struct { int index; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
typedef struct { unsigned int pid; unsigned long long used; unsigned int gi, ci; } process_t;
typedef struct { unsigned int pid; unsigned long long at; unsigned int sm, memory, encoder, decoder; } busy_t;
typedef struct { device_t *device; unsigned long long type, data; unsigned int gi, ci; } event_t;
typedef struct {
    unsigned int id, scope;
    long long timestamp, latency;
    int type, status;
    union { double d; unsigned int ui; unsigned long long ull; } value;
} field_t;
static device_t devices[MOST] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};
static int registered[MOST];
static int last_event;

/* What the control file says after these words, in its n-th line that begins with them; 0 if it says nothing. */
static int said(const char *words, int n, char *rest, size_t size) {
    const char *path = getenv("NVML_STUB_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[256];
    int found = 0;
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, words, strlen(words)) == 0 && strchr(" ", line[strlen(words)]) && n-- == 0) {
            snprintf(rest, size, "%s", line + strlen(words));
            found = 1;
        }
    }
    if (file) fclose(file);
    return found;
}
static int said_of(const device_t *device, const char *key, int n, char *rest, size_t size) {
    char words[64];
    snprintf(words, sizeof words, "gpu %d %s", device->index, key);
    return said(words, n, rest, size);
}
/* Two numbers at most; those that are not said stay as they are. */
static int numbers(const device_t *device, const char *key, int n, long *one, long *two) {
    char rest[256];
    if (!said_of(device, key, n, rest, sizeof rest)) return 0;
    sscanf(rest, "%ld %ld", one, two);
    return 1;
}

static unsigned int device_count(void) {
    const char *count = getenv("NVML_STUB_COUNT");
    char rest[256];
    if (said("count", 0, rest, sizeof rest)) return (unsigned int)atoi(rest);
    return count ? (unsigned int)atoi(count) : 3;
}
/* The other end of a device's n-th link: an index, or 's'; 0 if it has no such link. */
static char other_end(const device_t *device, unsigned int link) {
    const char *at = getenv("NVML_STUB_LINKS");
    char self = (char)('0' + device->index);
    for (; at && *at; at += at[3] ? 4 : 3) {
        char other = at[0] == self ? at[2] : at[2] == self ? at[0] : 0;
        if (other && link-- == 0) return other;
    }
    return 0;
}

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = device_count(); return SUCCESS; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "some error"; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **device) {
    char rest[256];
    if (index >= device_count()) return INVALID_ARGUMENT;
    if (said_of(&devices[index], "lost", 0, rest, sizeof rest)) return GPU_IS_LOST;
    *device = &devices[index];
    return SUCCESS;
}
int nvmlDeviceGetName(device_t *device, char *name, unsigned int length) {
    snprintf(name, length, device->index == 2 ? "NVIDIA T4" : "NVIDIA A100-SXM4-40GB");
    return SUCCESS;
}
int nvmlDeviceGetUUID(device_t *device, char *uuid, unsigned int length) {
    snprintf(uuid, length, "GPU-0000000%d", device->index);
    return SUCCESS;
}
int nvmlDeviceGetMinorNumber(device_t *device, unsigned int *minor) {
    *minor = (unsigned int)device->index + 4;
    return SUCCESS;
}
int nvmlDeviceGetMemoryInfo(device_t *device, memory_t *memory) {
    memory->total = (device->index == 2 ? 15360ULL : 40960ULL) << 20;
    memory->used = (100ULL * (device->index + 1)) << 20;
    memory->free = memory->total - memory->used;
    return SUCCESS;
}
int nvmlDeviceGetUtilizationRates(device_t *device, utilization_t *use) {
    use->gpu = 10 * (device->index + 1);
    use->memory = 1;
    return SUCCESS;
}
int nvmlDeviceGetPciInfo_v3(device_t *device, pci_t *pci) {
    memset(pci, 0, sizeof *pci);
    snprintf(pci->busId, sizeof pci->busId, "00000000:0%d:00.0", device->index + 1);
    return SUCCESS;
}
int nvmlDeviceGetTemperature(device_t *device, int sensor, unsigned int *celsius) {
    long degrees = 40, unused = 0;
    (void)sensor;
    numbers(device, "temperature", 0, &degrees, &unused);
    *celsius = (unsigned int)degrees;
    return SUCCESS;
}
int nvmlDeviceGetPowerUsage(device_t *device, unsigned int *milliwatts) {
    long power = 100000, unused = 0;
    numbers(device, "power", 0, &power, &unused);
    *milliwatts = (unsigned int)power;
    return SUCCESS;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(device_t *device, unsigned long long *reasons) {
    long bits = 0, unused = 0;
    numbers(device, "slow", 0, &bits, &unused);
    *reasons = (unsigned long long)bits;
    return SUCCESS;
}
int nvmlDeviceGetTotalEccErrors(device_t *device, int type, int counter, unsigned long long *count) {
    long lately = 0, ever = 0;
    if (getenv("NVML_STUB_OLD")) return NOT_SUPPORTED;
    if (type == 1) numbers(device, "ecc", 0, &lately, &ever);
    *count = (unsigned long long)(counter == 0 ? lately : ever);
    return SUCCESS;
}
int nvmlDeviceGetRemappedRows(
    device_t *device, unsigned int *corrected, unsigned int *uncorrected, unsigned int *pending, unsigned int *failed) {
    long is_pending = 0, has_failed = 0;
    if (getenv("NVML_STUB_OLD")) return NOT_SUPPORTED;
    numbers(device, "remap", 0, &is_pending, &has_failed);
    *corrected = *uncorrected = 0;
    *pending = (unsigned int)is_pending;
    *failed = (unsigned int)has_failed;
    return SUCCESS;
}
int nvmlDeviceGetFieldValues(device_t *device, int count, field_t *fields) {
    long action = 0, unused = 0;
    for (int at = 0; at < count; at++) {
        int is_told = fields[at].id == RECOVERY_ACTION && numbers(device, "action", 0, &action, &unused);
        fields[at].status = is_told ? SUCCESS : NOT_SUPPORTED;
        fields[at].value.ui = (unsigned int)action;
    }
    return SUCCESS;
}

static int processes(device_t *device, const char *kind, unsigned int *count, process_t *found) {
    unsigned int there = 0, room = found ? *count : 0;
    long pid = 0, mib = 0;
    for (; numbers(device, kind, (int)there, &pid, &mib); there++)
        if (there < room) found[there] = (process_t){(unsigned int)pid, (unsigned long long)mib << 20, 0, 0};
    *count = there;
    return there > room ? INSUFFICIENT_SIZE : SUCCESS;
}
int nvmlDeviceGetComputeRunningProcesses_v3(device_t *device, unsigned int *count, process_t *found) {
    return processes(device, "process", count, found);
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device_t *device, unsigned int *count, process_t *found) {
    return processes(device, "graphics", count, found);
}
int nvmlDeviceGetProcessUtilization(device_t *device, busy_t *found, unsigned int *count, unsigned long long since) {
    unsigned int there = 0, room = found ? *count : 0;
    long pid = 0, percent = 0;
    for (; numbers(device, "busy", (int)there, &pid, &percent); there++)
        if (there < room) found[there] = (busy_t){(unsigned int)pid, since + 1, (unsigned int)percent, 0, 0, 0};
    *count = there;
    if (there == 0) return NOT_SUPPORTED;
    if (pid == 0) return NOT_FOUND;
    return there > room ? INSUFFICIENT_SIZE : SUCCESS;
}

int nvmlEventSetCreate(void **set) { *set = devices; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(device_t *device, unsigned long long types, void *set) {
    (void)set;
    registered[device->index] = (types & XID_EVENT) != 0;
    return SUCCESS;
}
int nvmlEventSetWait_v2(void *set, event_t *event, unsigned int timeout_ms) {
    char rest[256];
    int index = 0, xid = 0;
    (void)set;
    for (unsigned int waited = 0; waited < timeout_ms; waited += 20) {
        char words[32];
        snprintf(words, sizeof words, "xid %d", last_event + 1);
        if (said(words, 0, rest, sizeof rest) && sscanf(rest, "%d %d", &index, &xid) == 2 && registered[index]) {
            last_event++;
            *event = (event_t){&devices[index], XID_EVENT, (unsigned long long)xid, 0, 0};
            return SUCCESS;
        }
        usleep(20 * 1000);
    }
    return TIMEOUT;
}

int nvmlDeviceGetNvLinkState(device_t *device, unsigned int link, unsigned int *is_active) {
    if (!getenv("NVML_STUB_LINKS")) return NOT_SUPPORTED;
    *is_active = other_end(device, link) != 0;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemoteDeviceType(device_t *device, unsigned int link, unsigned int *type) {
    if (getenv("NVML_STUB_OLD")) return NOT_SUPPORTED;
    *type = other_end(device, link) == 's' ? TO_SWITCH : TO_GPU;
    return SUCCESS;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device_t *device, unsigned int link, pci_t *pci) {
    char other = other_end(device, link);
    memset(pci, 0, sizeof *pci);
    if (other == 's') snprintf(pci->busId, sizeof pci->busId, "00000000:C%d:00.0", device->index);
    else snprintf(pci->busId, sizeof pci->busId, "00000000:0%d:00.0", other - '0' + 1);
    return SUCCESS;
}
