#include <stdlib.h>
#include <string.h>

#define RING_CAPACITY 64

/* A queue of bytes in a fixed buffer. */
struct ring {
    unsigned char bytes[RING_CAPACITY];
    size_t start;
    size_t length;
};

typedef enum { RING_OK, RING_FULL, RING_EMPTY } ring_status;

static size_t ring_index(const struct ring *ring, size_t offset)
{
    return (ring->start + offset) % RING_CAPACITY;
}

/* Appends a byte unless the queue is full. */
ring_status ring_push(struct ring *ring, unsigned char byte)
{
    if (ring->length == RING_CAPACITY) {
        return RING_FULL;
    }
    ring->bytes[ring_index(ring, ring->length)] = byte;
    ring->length++;
    return RING_OK;
}

unsigned char *ring_copy(const struct ring *ring)
{
    unsigned char *copy = malloc(ring->length);
    for (size_t i = 0; copy != NULL && i < ring->length; i++) {
        copy[i] = ring->bytes[ring_index(ring, i)];
    }
    return copy;
}
