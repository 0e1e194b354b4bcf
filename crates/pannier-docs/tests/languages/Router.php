<?php

namespace App\Http;

use InvalidArgumentException;

/** A handler of requests. */
interface Handler
{
    public function handle(array $request): string;
}

/**
 * Finds the handler of a path.
 */
final class Router
{
    private array $routes = [];

    /** Adds a route. */
    public function add(string $path, Handler $handler): void
    {
        if (isset($this->routes[$path])) {
            throw new InvalidArgumentException("the path $path is taken");
        }
        $this->routes[$path] = $handler;
    }

    public function dispatch(array $request): string
    {
        $handler = $this->routes[$request['path']] ?? null;
        return $handler === null ? 'not found' : $handler->handle($request);
    }
}

/** Joins the parts of a path. */
function join_path(string ...$parts): string
{
    return '/' . implode('/', array_map(fn ($part) => trim($part, '/'), $parts));
}
