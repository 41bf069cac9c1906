/* GPUs as NVML would describe them, three or as many as NVML_STUB_COUNT says; the one whose index is in
   NVML_STUB_LOST does not answer. NVML_STUB_LINKS is a list of links such as "0-1 2-s": between two GPUs, or from
   one to a switch. With NVML_STUB_OLD, what is at the other end of a link is told by its address only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, GPU_IS_LOST = 15 };
enum { MOST = 9, TO_GPU = 0, TO_SWITCH = 2 };
typedef struct { int index; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
static device_t devices[MOST] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};

static unsigned int device_count(void) {
    const char *said = getenv("NVML_STUB_COUNT");
    return said ? (unsigned int)atoi(said) : 3;
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
    const char *lost = getenv("NVML_STUB_LOST");
    if (index >= device_count()) return INVALID_ARGUMENT;
    if (lost && *lost && (unsigned int)atoi(lost) == index) return GPU_IS_LOST;
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
