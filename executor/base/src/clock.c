#include <tradewake/base/clock.h>
#include <tradewake/base/crash_point.h>

#include <stdio.h>
#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec now;
    clock_gettime(id, &now);
    return (int64_t)now.tv_sec * TW_NS_PER_S + now.tv_nsec;
}

int64_t tw_mono_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

int64_t tw_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME) + tw_fault_number("CLOCK_STEP_MS", 0) * TW_NS_PER_MS;
}

void tw_time_text(int64_t wall_ns, char text[TW_TIME_TEXT_BYTES])
{
    int64_t second = wall_ns / TW_NS_PER_S, rest_ns = wall_ns % TW_NS_PER_S;
    if (rest_ns < 0) { /* before 1970 */
        second--;
        rest_ns += TW_NS_PER_S;
    }
    time_t seconds = (time_t)second;
    struct tm utc;
    if (gmtime_r(&seconds, &utc) == NULL)
        utc = (struct tm){0};
    char date[24];
    strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(text, TW_TIME_TEXT_BYTES, "%s.%03dZ", date, (int)(rest_ns / TW_NS_PER_MS));
}
