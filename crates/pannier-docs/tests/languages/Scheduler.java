package org.example.jobs;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Queue;

/**
 * Runs jobs one after the other.
 */
public class Scheduler {
    private final Queue<Runnable> jobs = new ArrayDeque<>();
    private final Duration pause;

    /** Creates a scheduler that waits between jobs. */
    public Scheduler(Duration pause) {
        this.pause = pause;
    }

    @Override
    public String toString() {
        return "Scheduler with " + jobs.size() + " jobs";
    }

    /** Runs all jobs, and returns their number. */
    public int drain() throws InterruptedException {
        int count = 0;
        for (Runnable job = jobs.poll(); job != null; job = jobs.poll()) {
            job.run();
            count++;
            Thread.sleep(pause.toMillis());
        }
        return count;
    }

    public enum Priority { LOW, NORMAL, HIGH }
}

interface JobListener {
    void finished(Runnable job, Duration time);
}
