package io.budgetd;

import io.budgetd.api.Api;

/** The result of one item: an answer or an error; the other is null. */
public record Result(Api.DeductAnswer answer, BudgetdException error) {}
