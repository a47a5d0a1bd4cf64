/*
 * runner.h - the contained side of the agent pair: envelopes in, the work, one result out
 */
#pragma once

/**
 * runner_main() - speak with the launcher on @in_fd and @out_fd until there is a result
 * @vars: of the process, borrowed; where the model is, and what tools get
 * Forks. Return: exit status: 0; 1: the task failed, and the result says why; 2: no result could be sent.
 */
int runner_main(int in_fd, int out_fd, char *const *vars);
