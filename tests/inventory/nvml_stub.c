/* Three GPUs as NVML would describe them; the one whose index is in NVML_STUB_LOST does not answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, GPU_IS_LOST = 15 };
typedef struct { int index; } device_t;
typedef struct { unsigned long long total, free, used; } memory_t;
typedef struct { unsigned int gpu, memory; } utilization_t;
typedef struct {
    char busIdLegacy[16];
    unsigned int domain, bus, device, pciDeviceId, pciSubSystemId;
    char busId[32];
} pci_t;
static device_t devices[3] = {{0}, {1}, {2}};

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlInitWithFlags(unsigned int flags) { (void)flags; return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned int *count) { *count = 3; return SUCCESS; }
const char *nvmlErrorString(int code) { return code == GPU_IS_LOST ? "GPU is lost" : "some error"; }

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device_t **device) {
    const char *lost = getenv("NVML_STUB_LOST");
    if (index > 2) return INVALID_ARGUMENT;
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
