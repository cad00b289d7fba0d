-- Answers of a middling tool.
-- Ask the tool each question exactly as written, and paste its SQL below the
-- question's marker line without mending it. What stays empty counts as SKIP.

-- Q01: How many active customers do we have?
--   watch for: two customer tables, and soft-deleted rows in the right one
SELECT COUNT(*) AS active_customers
FROM customers_v2
WHERE is_deleted = 0;

-- Q02: What was total revenue in Q1 2025?
--   watch for: void orders, a status with three spellings, and three dates that disagree
SELECT ROUND(SUM(total_amount), 2) AS total_revenue
FROM orders
WHERE LOWER(status) IN ('complete', 'completed')
  AND booked_at >= '2025-01-01'
  AND booked_at < '2025-04-01';

-- Q03: How many customers placed an order in 2025?
--   watch for: customer_id against user_id, soft-deleted customers, void orders, three dates
SELECT COUNT(DISTINCT c.customer_id) AS customer_count
FROM customers_v2 c
JOIN orders o ON o.user_id = c.customer_id
WHERE c.is_deleted = 0
  AND o.void_flag = 0
  AND strftime('%Y', o.booked_at) = '2025';

-- Q04: What is the average order value for completed orders?
--   watch for: void orders, and a status with three spellings

-- Q05: What is total revenue by plan tier?
--   watch for: joining on user_id, soft-deleted customers, void orders, a status with three spellings
```sql
WITH completed_orders AS (
    SELECT customer_id, total_amount
    FROM orders
    WHERE void_flag = 0
      AND UPPER(status) LIKE 'COMPLETE%'
)
SELECT c.plan_tier,
       SUM(co.total_amount) AS total_revenue
FROM completed_orders co
JOIN customers_v2 c ON c.customer_id = co.customer_id
WHERE c.is_deleted = 0
GROUP BY c.plan_tier
ORDER BY total_revenue DESC;
```

-- Q06: What is the total value of all order items?
--   watch for: unit_price_cents is in cents, and items do not sum to the order's total
SELECT SUM(qty * unit_price_cents) AS total_value
FROM order_items;

-- Q07: Which acquisition channel has the highest revenue per customer?
--   watch for: revenue per customer, not in total; soft-deleted customers, void orders, user_id, the stale ltv_estimate
SELECT c.channel,
       SUM(o.total_amount) / COUNT(DISTINCT c.customer_id) AS revenue_per_customer
FROM customers_v2 c
JOIN orders o ON o.customer_id = c.customer_id
WHERE c.is_deleted = 0
  AND o.void_flag = 0
  AND LOWER(o.status) IN ('complete', 'completed')
GROUP BY c.channel
ORDER BY revenue_per_customer DESC
LIMIT 1;

-- Q08: How many orders have not been closed yet?
--   watch for: closed_at is NULL for open orders, and void orders are no orders
-- orders without a closing time, void ones left out
SELECT COUNT(*) AS open_orders
FROM orders
WHERE closed_at IS NULL
  AND void_flag = 0;

-- Q09: What is the actual lifetime revenue of customer 1, based on their orders?
--   watch for: ltv_estimate is stale; user_id is somebody else; void and unfinished orders
SELECT ltv_estimate AS lifetime_revenue
FROM customers_v2
WHERE customer_id = 1;

-- Q10: How many enterprise customers signed up in 2025?
--   watch for: two customer tables whose signup dates disagree, and soft-deleted rows
SELECT COUNT(*) AS enterprise_signups
FROM customers_v2
WHERE plan_tier = 'enterprise'
  AND is_deleted = 0
  AND signup_date BETWEEN '2025-01-01' AND '2025-12-31';
